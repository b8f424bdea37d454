// The models that come with the project against transformers (scripts/demo_model/make_fixtures.py).
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/model/loader.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

// Greedy ids of every line of `fixture`, in float32.
void check_greedy(const std::string& model_name, const std::string& fixture) {
    ThreadPool threads(2);
    const auto model = load_model({.directory = test::source_path("models/" + model_name),
                                   .dtype = DType::f32,
                                   .threads = &threads});
    test::Driver driver(*model, threads, DType::f32, 16);
    std::ifstream file(test::source_path("tests/fixtures/demo/" + fixture));
    int num_lines = 0;
    for (std::string line; std::getline(file, line); ++num_lines) {
        const auto fields = nlohmann::json::parse(line);
        const auto prompt = fields.at("prompt_ids").get<std::vector<int32_t>>();
        const auto expected = fields.at("greedy_ids").get<std::vector<int32_t>>();
        CAPTURE(num_lines);
        CHECK(driver.greedy(prompt, expected.size()) == expected);
    }
    CHECK(num_lines >= 8);
}

TEST_CASE("demo: logits within 1e-4 of transformers") {
    ThreadPool threads(2);
    const auto model = load_model(
        {.directory = test::source_path("models/demo"), .dtype = DType::f32, .threads = &threads});
    const SafetensorsFile reference(test::source_path("tests/fixtures/demo/logits.safetensors"));
    test::Driver driver(*model, threads, DType::f32, 16);
    for (const std::string index : {"0", "1"}) {
        const auto wide_ids = test::values_of<int64_t>(reference, "ids." + index);
        const std::vector<int32_t> ids(wide_ids.begin(), wide_ids.end());
        const auto expected = test::values_of<float>(reference, "logits." + index);
        REQUIRE_FALSE(expected.empty());
        const double difference = test::largest_difference(driver.logits_of(ids, 0), expected);
        MESSAGE("demo: largest difference of a logit " << difference);
        CHECK(difference < 1e-4);
    }
}

TEST_CASE("demo: 64 greedy ids are those of transformers") { check_greedy("demo", "greedy.jsonl"); }

TEST_CASE("demo-draft: 64 greedy ids are those of transformers") {
    check_greedy("demo-draft", "draft_greedy.jsonl");
}

}  // namespace
}  // namespace nvllm
