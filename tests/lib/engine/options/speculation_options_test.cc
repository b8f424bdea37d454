// The JSON object and the short forms.
#include "lib/engine/options/speculation_options.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace nvllm {
namespace {

SpeculationConfig read(const std::string& config) {
    return speculation_config({.config = config, .method = "auto", .num_speculative_tokens = {}});
}

std::string refusal(const SpeculationOptions& options) {
    return test::error_of(ErrorKind::usage, [&] { speculation_config(options); });
}

TEST_CASE("speculation options: nothing asked for, nothing proposed") {
    CHECK(!speculation_config({}).enabled());
}

TEST_CASE("speculation options: vLLM's keys") {
    const SpeculationConfig config = read(
        R"({"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 5,
            "prompt_lookup_min": 3})");
    CHECK(config.method == "ngram");
    CHECK(config.num_speculative_tokens == 6);
    CHECK(config.prompt_lookup_max == 5);
    CHECK(config.prompt_lookup_min == 3);
    CHECK(config.adaptive);
    CHECK(!read(R"({"adaptive": false})").adaptive);
    CHECK(read(R"({"model": "[ngram]"})").method == "ngram");
    CHECK(read("{}").method == "ngram");
}

TEST_CASE("speculation options: of one limit alone, the other follows") {
    CHECK(read(R"({"prompt_lookup_max": 1})").prompt_lookup_min == 1);
    CHECK(read(R"({"prompt_lookup_min": 9})").prompt_lookup_max == 9);
}

TEST_CASE("speculation options: short forms") {
    const SpeculationConfig config =
        speculation_config({.config = {}, .method = "auto", .num_speculative_tokens = 3});
    CHECK(config.method == "ngram");
    CHECK(config.num_speculative_tokens == 3);
    CHECK(speculation_config({.config = {}, .method = "ngram", .num_speculative_tokens = {}})
              .enabled());
    CHECK(refusal({.config = R"({"num_speculative_tokens": 2})",
                   .method = "auto",
                   .num_speculative_tokens = 3})
              .find("--num-speculative-tokens 3") != std::string::npos);
}

TEST_CASE("speculation options: what cannot be is refused by name") {
    const auto refused = [](const std::string& config, const std::string& text) {
        const std::string message =
            refusal({.config = config, .method = "auto", .num_speculative_tokens = {}});
        CAPTURE(message);
        CHECK(message.starts_with("--speculative-config"));
        CHECK(message.find(text) != std::string::npos);
    };
    refused(R"({"prompt_lookup_maxi": 3})", "did you mean 'prompt_lookup_max'");
    refused(R"({"draft_tensor_parallel_size": 1})", "draft_tensor_parallel_size");
    refused(R"({"method": "eagle"})", "method is 'eagle'");
    refused(R"({"model": "org/draft"})", "draft models");
    refused(R"({"num_speculative_tokens": 0})", "from 1 to 32");
    refused(R"({"num_speculative_tokens": "4"})", "num_speculative_tokens must be");
    refused(R"({"prompt_lookup_max": 2, "prompt_lookup_min": 3})", "prompt_lookup_min is 3");
    refused("[]", "JSON object");
    refused("{", "--speculative-config");
}

}  // namespace
}  // namespace nvllm
