// Sequences of both of longrope's factors in one batch.
#include <doctest/doctest.h>

#include <vector>

#include "lib/model/loader.h"
#include "tests/lib/model/driver.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

std::unique_ptr<Model> load(ThreadPool& threads, int64_t max_model_len) {
    ModelLoadOptions options;
    options.directory = test::source_path("tests/fixtures/longrope");
    options.dtype = DType::f32;
    options.max_model_len = max_model_len;
    options.threads = &threads;
    return load_model(options);
}

TEST_CASE("longrope: a sequence of either choice has the bits that it has alone") {
    ThreadPool threads(2);
    const std::unique_ptr<Model> model = load(threads, 256);
    const std::unique_ptr<Model> shorter = load(threads, 48);
    REQUIRE(model->original_context() == 48);
    CHECK(shorter->original_context() == 0);
    test::Driver driver(*model, threads, DType::f32, 16);
    test::Driver short_driver(*shorter, threads, DType::f32, 16);
    const std::vector<int32_t> tokens = {7, 90, 33, 5, 61, 14, 88, 2, 120, 51, 9, 27};
    const std::vector<int32_t> next = {44, 17};
    const std::vector<float> within = short_driver.logits_of(tokens, 0);
    const std::vector<float> beyond = driver.logits_of(tokens, 0);
    CHECK(within != beyond);
    const size_t one = driver.add_sequence(1), other = driver.add_sequence(0);
    std::vector<float> both = within;
    both.insert(both.end(), beyond.begin(), beyond.end());
    CHECK(driver.step({{one, tokens}, {other, tokens}}) == both);
    // And on, in the other order, each by its own keys.
    const std::vector<float> on_within = short_driver.step({{0, next}});
    const std::vector<float> on_beyond = driver.step({{0, next}});
    both = on_beyond;
    both.insert(both.end(), on_within.begin(), on_within.end());
    CHECK(driver.step({{other, next}, {one, next}}) == both);
}

}  // namespace
}  // namespace nvllm
