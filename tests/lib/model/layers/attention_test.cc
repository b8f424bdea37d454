// Attention over a tree of drafts: each row is what it is in a sequence of its own.
#include "lib/model/layers/attention.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/model/loader.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using Rows = std::vector<float>;

struct Demo {
    ThreadPool threads{2};
    std::unique_ptr<Model> model = load_model(
        {.directory = test::source_path("models/demo"), .dtype = DType::f32, .threads = &threads});
    test::Driver driver{*model, threads, DType::f32, 16};

    Rows row(const Rows& logits, size_t index) const {
        const auto width = static_cast<std::ptrdiff_t>(model->config().vocab_size);
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(index) * width;
        return {begin, begin + width};
    }
};

const std::vector<int32_t> kPrompt = {11, 42, 7, 300, 25, 61, 14, 88, 2, 120, 51, 9, 27, 33, 5};

TEST_CASE("attention: rows of a tree are those of sequences that are computed alone") {
    Demo demo;
    // 101 with two children, 202 and 303; 404 follows 303.
    const size_t tree = demo.driver.add_sequence();
    demo.driver.step({{tree, kPrompt}});
    const size_t text = demo.driver.add_sequence();
    const Rows of_tree =
        demo.driver.step({{tree, {101, 202, 303, 404}, {-1, 0, 0, 2}}, {text, kPrompt}});
    const size_t left = demo.driver.add_sequence(), right = demo.driver.add_sequence();
    demo.driver.step({{left, kPrompt}, {right, kPrompt}});
    const Rows of_left = demo.driver.step({{left, {101, 202}}});
    const Rows of_right = demo.driver.step({{right, {101, 303, 404}}});
    // These lie in the tree as they do alone; the others lie one position further on.
    CHECK(demo.row(of_tree, 0) == demo.row(of_left, 0));
    CHECK(demo.row(of_tree, 1) == demo.row(of_left, 1));
    CHECK(test::largest_difference(demo.row(of_tree, 2), demo.row(of_right, 1)) < 1e-4);
    CHECK(test::largest_difference(demo.row(of_tree, 3), demo.row(of_right, 2)) < 1e-4);
    CHECK(test::largest_difference(demo.row(of_tree, 3), demo.row(of_left, 1)) > 1e-2);
    // A sequence beside the tree is a text.
    const Rows alone = demo.driver.logits_of(kPrompt, 0);
    CHECK(Rows(of_tree.end() - static_cast<std::ptrdiff_t>(alone.size()), of_tree.end()) == alone);
}

TEST_CASE("attention: a tree of one branch has the bits of a text") {
    Demo demo;
    const size_t tree = demo.driver.add_sequence(), text = demo.driver.add_sequence();
    demo.driver.step({{tree, kPrompt}, {text, kPrompt}});
    const Rows of_tree = demo.driver.step({{tree, {101, 202, 303}, {-1, 0, 1}}});
    CHECK(of_tree == demo.driver.step({{text, {101, 202, 303}}}));
}

}  // namespace
}  // namespace nvllm
