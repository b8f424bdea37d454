// The prefix index: exact hits, collisions, several blocks with one content, and what stays
// reachable.
#include "lib/cache/prefix/prefix_index.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/error.h"
#include "lib/cache/prefix/prefix_listener.h"

namespace nvllm {
namespace {

constexpr HashKey kKey{1, 2};
using Tokens = std::vector<int32_t>;

TEST_CASE("a content is found by its key, tokens, parent and extra bytes") {
    const std::vector<int32_t> sizes{4};
    PrefixIndex index(3, sizes, kKey);
    const Tokens tokens{1, 2, 3};
    const BlockKey key = index.key({}, tokens, "salt");
    CHECK(index.find(nullptr, key, tokens, "salt") == nullptr);
    PrefixNode* node = index.find_or_add(nullptr, key, tokens, "salt");
    CHECK(index.find(nullptr, key, tokens, "salt") == node);
    CHECK_FALSE(PrefixIndex::block(*node, 0).has_value());
    index.insert(*node, 0, 3);
    CHECK(PrefixIndex::block(*node, 0) == 3);
    CHECK(index.contains(0, 3));
    CHECK_THROWS_AS(index.insert(*node, 0, 3), Error);
    index.unpin(*node);
    index.check_integrity();
}

TEST_CASE("keys depend on everything before, and on the process's key") {
    const std::vector<int32_t> sizes{1};
    const PrefixIndex index(2, sizes, kKey);
    const PrefixIndex other(2, sizes, {3, 4});
    const BlockKey first = index.key({}, Tokens{1, 2}, "");
    CHECK_FALSE(first == index.key({}, Tokens{1, 3}, ""));
    CHECK_FALSE(first == index.key({}, Tokens{1, 2}, "salt"));
    CHECK_FALSE(first == index.key(first, Tokens{1, 2}, ""));
    CHECK_FALSE(first == other.key({}, Tokens{1, 2}, ""));
    CHECK(first == index.key({}, Tokens{1, 2}, ""));
}

// Lists what is cached.
struct Listener : PrefixListener {
    std::vector<BlockKey> keys;
    void cached(const BlockKey& key) override { keys.push_back(key); }
    void dropped(const BlockKey& key) override { std::erase(keys, key); }
};

TEST_CASE("a listener knows the contents that some block holds") {
    const std::vector<int32_t> sizes{4, 4};
    PrefixIndex index(1, sizes, kKey);
    Listener listener;
    index.set_listener(&listener);
    const BlockKey key = index.key({}, Tokens{1}, "");
    PrefixNode* node = index.find_or_add(nullptr, key, Tokens{1}, "");
    CHECK(listener.keys.empty());
    index.insert(*node, 0, 2);
    index.insert(*node, 0, 3);
    index.insert(*node, 1, 0);
    CHECK(listener.keys == std::vector{key});
    index.remove(0, 2);
    index.move(0, 3, 1);
    index.remove(0, 1);
    CHECK(listener.keys == std::vector{key});
    index.set_host_block(*node, 1, 5);
    index.remove(1, 0);
    CHECK(listener.keys == std::vector{key});
    index.set_host_block(*node, 1, kNoHostBlock);
    CHECK(listener.keys.empty());
    index.unpin(*node);
}

TEST_CASE("contents whose keys collide are told apart") {
    const std::vector<int32_t> sizes{8};
    PrefixIndex index(1, sizes, kKey);
    const BlockKey same{7, 7};
    PrefixNode* one = index.find_or_add(nullptr, same, Tokens{1}, "");
    PrefixNode* two = index.find_or_add(nullptr, same, Tokens{2}, "");
    PrefixNode* salted = index.find_or_add(nullptr, same, Tokens{1}, "salt");
    PrefixNode* child = index.find_or_add(one, same, Tokens{1}, "");
    const std::set<PrefixNode*> all{one, two, salted, child};
    CHECK(all.size() == 4);
    CHECK(index.find(nullptr, same, Tokens{1}, "") == one);
    CHECK(index.find(nullptr, same, Tokens{2}, "") == two);
    CHECK(index.find(nullptr, same, Tokens{1}, "salt") == salted);
    CHECK(index.find(one, same, Tokens{1}, "") == child);
    CHECK(index.find(two, same, Tokens{1}, "") == nullptr);
    CHECK(index.find(nullptr, same, Tokens{3}, "") == nullptr);
}

TEST_CASE("several blocks hold one content; it is found until the last is withdrawn") {
    const std::vector<int32_t> sizes{4};
    PrefixIndex index(1, sizes, kKey);
    PrefixNode* node = index.find_or_add(nullptr, {5, 5}, Tokens{1}, "");
    for (const BlockId block : {2, 0, 3}) index.insert(*node, 0, block);
    index.unpin(*node);
    index.remove(0, 2);
    CHECK(PrefixIndex::block(*index.find(nullptr, {5, 5}, Tokens{1}, ""), 0).has_value());
    index.remove(0, 3);
    CHECK(PrefixIndex::block(*index.find(nullptr, {5, 5}, Tokens{1}, ""), 0) == 0);
    index.check_integrity();
    index.remove(0, 0);
    CHECK(index.find(nullptr, {5, 5}, Tokens{1}, "") == nullptr);
    CHECK(index.num_nodes() == 0);
    CHECK_THROWS_AS(index.remove(0, 0), Error);
}

TEST_CASE(
    "a child stays reachable when its parent's blocks are reused, and takes the parent with it") {
    const std::vector<int32_t> sizes{4};
    PrefixIndex index(1, sizes, kKey);
    PrefixNode* parent = index.find_or_add(nullptr, {1, 1}, Tokens{1}, "");
    PrefixNode* child = index.find_or_add(parent, {2, 2}, Tokens{2}, "");
    index.insert(*parent, 0, 0);
    index.insert(*child, 0, 1);
    index.unpin(*parent);
    index.unpin(*child);
    index.remove(0, 0);
    CHECK(index.find(nullptr, {1, 1}, Tokens{1}, "") == parent);
    CHECK(index.find(parent, {2, 2}, Tokens{2}, "") == child);
    index.remove(0, 1);
    CHECK(index.num_nodes() == 0);
    index.check_integrity();
}

TEST_CASE("contents beyond the number of blocks are found, and their memory is used again") {
    constexpr int32_t kContents = 300;  // more than the buckets at first
    const std::vector<int32_t> sizes{4};
    PrefixIndex index(1, sizes, kKey);
    for (int round = 0; round < 3; ++round) {
        std::vector<PrefixNode*> chain;
        PrefixNode* last = nullptr;
        for (int32_t i = 0; i < kContents; ++i) {
            const BlockKey key = index.key({}, Tokens{i}, "");
            last = index.find_or_add(last, key, Tokens{i}, i % 2 == 0 ? "" : "media");
            chain.push_back(last);
        }
        index.insert(*last, 0, 2);
        CHECK(index.num_nodes() == kContents);
        CHECK(std::set(chain.begin(), chain.end()).size() == kContents);
        PrefixNode* found = nullptr;
        for (int32_t i = 0; i < kContents; ++i) {
            const BlockKey key = index.key({}, Tokens{i}, "");
            found = index.find(found, key, Tokens{i}, i % 2 == 0 ? "" : "media");
            REQUIRE(found == chain[static_cast<size_t>(i)]);
            CHECK(found->depth == i);
            CHECK(found->num_hits == 0);
            found->num_hits = 7;
        }
        for (PrefixNode* node : chain) index.unpin(*node);
        index.check_integrity();
        index.remove(0, 2);
        CHECK(index.num_nodes() == 0);
        index.check_integrity();
    }
}

TEST_CASE("a block that moves keeps its place among those with the same content") {
    const std::vector<int32_t> sizes{6};
    PrefixIndex index(1, sizes, kKey);
    PrefixNode* node = index.find_or_add(nullptr, {5, 5}, Tokens{1}, "");
    index.insert(*node, 0, 5);
    index.move(0, 5, 0);
    CHECK(index.blocks(*node, 0) == std::vector<BlockId>{0});
    for (const BlockId block : {4, 3}) index.insert(*node, 0, block);
    index.move(0, 4, 1);
    index.check_integrity();
    index.move(0, 0, 2);
    index.check_integrity();
    CHECK(PrefixIndex::block(*node, 0) == 2);
    const std::vector<BlockId> blocks = index.blocks(*node, 0);
    CHECK(std::set(blocks.begin(), blocks.end()) == std::set<BlockId>{1, 2, 3});
    CHECK_THROWS_AS(index.move(0, 5, 4), Error);
    CHECK_THROWS_AS(index.move(0, 1, 2), Error);
    CHECK_FALSE(index.contains(0, 0));
}

// Paths of contents in a model: a path is the list of its blocks' first tokens. Keys are cut to a
// few bits, so that most collide.
TEST_CASE("50,000 random operations with colliding keys find exactly what is there") {
    std::mt19937 random(11);
    constexpr int kBlocks = 48;
    const std::vector<int32_t> sizes{kBlocks};
    PrefixIndex index(1, sizes, kKey);
    const auto weak_key = [&](const BlockKey& parent, const Tokens& tokens) {
        return BlockKey{index.key(parent, tokens, "").low % 3, 0};
    };
    std::map<BlockId, Tokens> paths;  // what each inserted block holds
    bool exact = true;
    for (int i = 0; i < 50000 && exact; ++i) {
        const auto block = static_cast<BlockId>(random() % kBlocks);
        if (paths.contains(block)) {
            const auto other = static_cast<BlockId>(random() % kBlocks);
            if (paths.contains(other)) {
                index.remove(0, block);
            } else {
                index.move(0, block, other);
                paths[other] = paths[block];
            }
            paths.erase(block);
            continue;
        }
        Tokens path(1 + random() % 4);
        for (int32_t& token : path) token = static_cast<int32_t>(random() % 3);
        PrefixNode* node = nullptr;
        BlockKey key;
        for (const int32_t token : path) {
            key = weak_key(key, {token});
            PrefixNode* next = index.find_or_add(node, key, Tokens{token}, "");
            if (node != nullptr) index.unpin(*node);
            node = next;
        }
        for (const BlockId holder : index.blocks(*node, 0))
            exact = exact && paths.at(holder) == path;
        for (const auto& [holder, held] : paths) {
            if (held == path) exact = exact && index.contains(0, holder) && node->num_blocks > 0;
        }
        index.insert(*node, 0, block);
        index.unpin(*node);
        paths[block] = path;
        if (i % 50 == 0) index.check_integrity();
    }
    CHECK(exact);
}

}  // namespace
}  // namespace nvllm
