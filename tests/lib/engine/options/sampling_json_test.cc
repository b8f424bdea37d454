// JSON values of sampling fields: each form that a field takes, and the complaint about others.
#include "lib/engine/options/sampling_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/engine/options/json_values.h"

using namespace nvllm;
using Json = nlohmann::ordered_json;

namespace {

SamplingParams read(const std::string& name, const std::string& value) {
    SamplingParams params;
    CHECK(read_sampling_field(name, Json::parse(value), params));
    return params;
}

bool is_known(const std::string& name) {
    SamplingParams params;
    return read_sampling_field(name, nullptr, params);
}

// What the value must be; empty if it is taken.
std::string expected(const std::string& name, const std::string& value) {
    try {
        read(name, value);
    } catch (const json_values::WrongValue& wrong) {
        return wrong.expected;
    }
    return "";
}

}  // namespace

TEST_CASE("sampling JSON: names and aliases") {
    for (const char* name : {"top_p", "max_tokens", "max_completion_tokens", "top_logprobs",
                             "samplers", "exponential_decay_length_penalty"}) {
        CAPTURE(name);
        CHECK(is_known(name));
    }
    for (const char* name : {"", "top-p", "sampler_order", "end_boost", "prompt"}) {
        CAPTURE(name);
        CHECK(!is_known(name));
    }
    CHECK(read("top_p", "null").top_p == 1.0f);
    CHECK(!read("logprobs", "null").logprobs);
    CHECK(read("max_completion_tokens", "7").max_tokens == 7);
    CHECK(read("top_logprobs", "3").logprobs == 3);
}

TEST_CASE("sampling JSON: numbers, counts and words") {
    CHECK(read("temperature", "0.25").temperature == 0.25f);
    CHECK(read("top_k", "-1").top_k == 0);
    CHECK(read("top_k", "5.0").top_k == 5);
    CHECK(read("min_tokens", "-1").min_tokens == -1);
    CHECK(read("seed", "-1").seed == UINT64_MAX);
    CHECK(read("ignore_eos", "true").ignore_eos);
    CHECK(read("early_stopping", "\"never\"").early_stopping == EarlyStopping::never);
    CHECK(read("early_stopping", "true").early_stopping == EarlyStopping::yes);
    CHECK(expected("early_stopping", "\"yes\"") == "true, false or \"never\"");
    CHECK(expected("temperature", "\"hot\"") == "a number");
    CHECK(expected("top_k", "1.5") == "an integer in [-2147483648, 2147483647]");
    CHECK(expected("ignore_eos", "1") == "true or false");
}

TEST_CASE("sampling JSON: logprobs are a count, or true with a count of their own") {
    CHECK(read("logprobs", "2").logprobs == 2);
    CHECK(read("logprobs", "true").logprobs == 0);
    CHECK(!read("logprobs", "false").logprobs);
    SamplingParams params = read("top_logprobs", "4");
    CHECK(read_sampling_field("logprobs", true, params));
    CHECK(params.logprobs == 4);
    CHECK(expected("prompt_logprobs", "true") == "a number");
}

TEST_CASE("sampling JSON: lists, and one value for a list") {
    using Ids = std::vector<int32_t>;
    CHECK(read("stop_token_ids", "[3, 1]").stop_token_ids == Ids{3, 1});
    CHECK(expected("stop_token_ids", "3") == "a list of token ids");
    CHECK(read("forced_eos_token_id", "3").forced_eos_token_ids == Ids{3});
    CHECK(read("forced_eos_token_id", "[3, 4]").forced_eos_token_ids == Ids{3, 4});
    CHECK(read("forced_bos_token_id", "3").forced_bos_token_id == 3);
    CHECK(read("stop", "\"a\"").stop == std::vector<std::string>{"a"});
    CHECK(read("stop", "[\"a\", \"b\"]").stop == std::vector<std::string>{"a", "b"});
    CHECK(expected("samplers", "\"top_k\"") == "a list of strings");
    const auto biases = read("logit_bias", R"({"5": -2.5, "7": 1})").logit_bias;
    CHECK(biases == std::vector<std::pair<int32_t, float>>{{5, -2.5f}, {7, 1.0f}});
    CHECK(expected("logit_bias", R"({"x": 1})") == "an object from token id to bias");
    CHECK(read("exponential_decay_length_penalty", "[3, 1.5]").end_boost == EndBoost{3, 1.5f});
    CHECK(expected("exponential_decay_length_penalty", "[3]") ==
          "a list of a number of tokens and a factor");
}
