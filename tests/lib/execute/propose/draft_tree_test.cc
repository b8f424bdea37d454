// Which nodes of a tree go on, and which are proposed.
#include "lib/execute/propose/draft_tree.h"

#include <doctest/doctest.h>

#include <random>

namespace nvllm {
namespace {

using Ids = std::vector<int32_t>;

Ids grown(DraftTree& tree) {
    const std::span<const int32_t> nodes = tree.grow();
    return {nodes.begin(), nodes.end()};
}

TEST_CASE("draft tree: a chain has one node a level, as many as are wanted") {
    DraftTree tree({4, 1}, 3);
    CHECK(tree.most_rows() == 2);
    tree.add(-1, 10, 0.0f);
    CHECK(grown(tree) == Ids{0});
    tree.add(0, 11, 0.0f);
    CHECK(grown(tree) == Ids{1});
    tree.add(1, 12, 0.0f);
    CHECK(grown(tree).empty());
    CHECK(tree.best() == DraftTokens{{10, 11, 12}, {}});
    CHECK(tree.computed() == DraftTokens{{10, 11}, {0, 1}});
    CHECK_FALSE(tree.computed().branches());
    DraftTree deeper({2, 1}, 3);
    deeper.add(-1, 10, 0.0f);
    CHECK(grown(deeper) == Ids{0});
    deeper.add(0, 11, 0.0f);
    CHECK(grown(deeper).empty());
    CHECK(deeper.best().size() == 2);
}

TEST_CASE("draft tree: the most confident nodes go on and are proposed, parents first") {
    DraftTree tree({3, 2}, 4);
    tree.add(-1, 10, -0.7f);
    tree.add(-1, 11, -0.9f);
    CHECK(grown(tree) == Ids{0, 1});
    tree.add(0, 20, -1.0f);  // -1.7
    tree.add(0, 21, -1.5f);  // -2.2
    tree.add(1, 22, -0.1f);  // -1.0
    tree.add(1, 23, -3.0f);  // -3.9
    // Of the four best the last is -1.7.
    CHECK(grown(tree) == Ids{4});
    CHECK(tree.computed() == DraftTokens{{10, 11, 22}, {0, 0, 2}});
    CHECK(tree.node(4).row == 3);
    tree.add(4, 30, -0.2f);  // -1.2
    tree.add(4, 31, -2.0f);
    CHECK(grown(tree).empty());
    CHECK(tree.best() == DraftTokens{{10, 11, 22, 30}, {0, 0, 2, 3}});
}

TEST_CASE("draft tree: what gets no children has no descendant among the best") {
    std::mt19937 random{3};
    const auto logprob = [](int32_t parent_token, int32_t token) {
        std::mt19937 own(static_cast<unsigned>(parent_token * 131 + token));
        return -0.05f - 2.0f * static_cast<float>(own() % 1000) / 1000.0f;
    };
    for (int round = 0; round < 50; ++round) {
        const DraftShape shape{1 + static_cast<int32_t>(random() % 5),
                               1 + static_cast<int32_t>(random() % 4)};
        const int32_t most = 1 + static_cast<int32_t>(random() % 12);
        const auto grow_all = [&](int32_t wanted) {
            DraftTree tree(shape, wanted);
            Ids level{-1};
            while (!level.empty()) {
                for (const int32_t parent : level) {
                    const int32_t token = parent < 0 ? 0 : tree.node(parent).token;
                    // The same children whatever else has grown.
                    for (int32_t child = 1; child <= shape.width; ++child) {
                        const int32_t id = (token * 5 + child) % 100003;
                        tree.add(parent, id, logprob(token, id));
                    }
                }
                level = grown(tree);
            }
            CHECK(tree.computed().size() <= tree.most_rows());
            return tree;
        };
        // With all wanted no node is left out for its confidence.
        const DraftTokens few = grow_all(most).best();
        const DraftTokens all = grow_all(1000).best();
        CHECK(few.size() == std::min(most, all.size()));
        for (int32_t row = 1; row <= few.size(); ++row) {
            const auto index = static_cast<size_t>(row - 1);
            CHECK(few.token_ids[index] == all.token_ids[index]);
            CHECK(few.parent(row) == all.parent(row));
            CHECK(few.parent(row) < row);
        }
    }
}

}  // namespace
}  // namespace nvllm
