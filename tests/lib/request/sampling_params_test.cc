// Each sampling parameter at, inside and outside the ends of its range; not-a-number; messages that
// name all three.
#include "lib/request/sampling_params.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace nvllm {
namespace {

constexpr int32_t kVocab = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Change = std::function<void(SamplingParams&)>;

// The refusal of otherwise good parameters; empty when they are taken.
std::string refusal(const Change& change) {
    SamplingParams params;
    change(params);
    const std::optional<Fault> fault = params.check(kVocab);
    if (!fault) return "";
    CHECK(fault->kind == ErrorKind::bad_data);
    return fault->message;
}

struct NumberRow {
    const char* field;
    float SamplingParams::*member;
    float least;
    float most;
    bool min_excluded;
};

TEST_CASE("numbers: the ends of the range are taken, what lies beyond and NaN are not") {
    const std::vector<NumberRow> rows = {
        {"temperature", &SamplingParams::temperature, 0.0f, 2.0f, false},
        {"top_p", &SamplingParams::top_p, 0.0f, 1.0f, true},
        {"min_p", &SamplingParams::min_p, 0.0f, 1.0f, false},
        {"repetition_penalty", &SamplingParams::repetition_penalty, 0.0f, 10.0f, true},
        {"presence_penalty", &SamplingParams::presence_penalty, -2.0f, 2.0f, false},
        {"frequency_penalty", &SamplingParams::frequency_penalty, -2.0f, 2.0f, false},
    };
    for (const NumberRow& row : rows) {
        CAPTURE(std::string(row.field));
        const auto with = [&](float value) {
            return refusal([&](SamplingParams& params) { params.*row.member = value; });
        };
        CHECK(with(row.most).empty());
        CHECK(with((row.least + row.most) / 2 + 0.1f).empty());
        CHECK(with(row.least).empty() != row.min_excluded);
        for (const float value :
             {std::nextafter(row.most, 100.0f), std::nextafter(row.least, -100.0f), kInfinity,
              -kInfinity, kNan}) {
            CHECK(with(value).starts_with(row.field));
        }
        CHECK(with(kNan).find("nan") != std::string::npos);
    }
}

TEST_CASE("counts: the ends of the range are taken, what lies beyond is not") {
    const auto refused = [](const char* field, const Change& change) {
        return refusal(change).starts_with(field);
    };
    for (const int32_t n : {1, 128}) CHECK(refusal([&](auto& p) { p.n = n; }).empty());
    for (const int32_t n : {0, -1, 129}) CHECK(refused("n is", [&](auto& p) { p.n = n; }));
    for (const int32_t k : {0, 1, 1 << 30}) CHECK(refusal([&](auto& p) { p.top_k = k; }).empty());
    CHECK(refused("top_k", [](auto& p) { p.top_k = -1; }));
    CHECK(refusal([](auto& p) { p.max_tokens = 1; }).empty());
    CHECK(refused("max_tokens", [](auto& p) { p.max_tokens = 0; }));
    CHECK(refused("min_tokens", [](auto& p) { p.min_tokens = -1; }));
    CHECK(refusal([](auto& p) { p.min_tokens = *(p.max_tokens = 5); }).empty());
    CHECK(refused("min_tokens", [](auto& p) { p.min_tokens = *(p.max_tokens = 5) + 1; }));
    for (const int32_t count : {0, 20, INT32_MAX})
        CHECK(refusal([&](auto& p) { p.logprobs = count; }).empty());
    CHECK(refused("logprobs", [](auto& p) { p.logprobs = -1; }));
}

TEST_CASE("lists: lengths, tokens of the vocabulary, and what each entry holds") {
    const auto refused = [](const char* field, const Change& change) {
        return refusal(change).starts_with(field);
    };
    for (const int32_t token : {0, kVocab - 1}) {
        CHECK(refusal([&](auto& p) {
                  p.logit_bias = {{token, -100.0f}, {token, 100.0f}};
              }).empty());
        CHECK(refusal([&](auto& p) { p.stop_token_ids = {token}; }).empty());
    }
    for (const int32_t token : {-1, kVocab}) {
        CHECK(refused("logit_bias[1]", [&](auto& p) {
            p.logit_bias = {{1, 0.0f}, {token, 0.0f}};
        }));
        CHECK(refused("stop_token_ids[0]", [&](auto& p) { p.stop_token_ids = {token}; }));
    }
    for (const float bias : {-100.5f, 100.5f, kNan}) {
        CHECK(refused("logit_bias[0]", [&](auto& p) { p.logit_bias = {{1, bias}}; }));
    }
    CHECK(refused("logit_bias has 1025", [](auto& p) { p.logit_bias.resize(1025); }));
    CHECK(refusal([](auto& p) { p.logit_bias.resize(1024); }).empty());
    CHECK(refusal([](auto& p) { p.stop.assign(1024, std::string(16, 'x')); }).empty());
    CHECK(refusal([](auto& p) { p.stop.assign(4, std::string(4096, 'x')); }).empty());
    CHECK(refused("stop has 1025", [](auto& p) { p.stop.assign(1025, "x"); }));
    CHECK(
        refused("stop has 20480 bytes", [](auto& p) { p.stop.assign(5, std::string(4096, 'x')); }));
    CHECK(refused("stop[1]", [](auto& p) { p.stop = {"x", ""}; }));
    CHECK(refused("stop[0]", [](auto& p) { p.stop = {std::string(4097, 'x')}; }));
    CHECK(refused("stop_token_ids has 1025", [](auto& p) { p.stop_token_ids.resize(1025); }));
}

TEST_CASE("a refusal names the field, the value and the range") {
    CHECK(refusal([](auto& p) { p.temperature = 2.5f; }) ==
          "temperature is 2.5; it must be from 0 to 2");
    CHECK(refusal([](auto& p) { p.top_p = 0.0f; }) ==
          "top_p is 0; it must be above 0 and at most 1");
    CHECK(refusal([](auto& p) { p.n = 199; }) == "n is 199; it must be from 1 to 128");
    CHECK(refusal([](auto& p) { p.top_k = -7; }) == "top_k is -7; it must be at least 0");
    CHECK(refusal([](auto& p) { p.stop_token_ids = {100}; }) ==
          "stop_token_ids[0] is token 100; it must be from 0 to 99");
}

TEST_CASE("samplers: names of narrowing steps, each once") {
    CHECK(refusal([](auto& p) { p.sampler_order = {"top_p", "temperature"}; }).empty());
    CHECK(refusal([](auto& p) {
              p.sampler_order = {"top_p", "mirostat"};
          }) ==
          "samplers: 'mirostat' is not one of temperature, top_n_sigma, top_h, top_k, top_p, "
          "min_p, typical_p, epsilon_cutoff, eta_cutoff");
    CHECK(refusal([](auto& p) {
              p.sampler_order = {"top_p", "top_p"};
          }) == "samplers: 'top_p' comes twice");
    CHECK(refusal([](auto& p) { p.sampler_order = {"logit_bias"}; }).find("samplers") == 0);
}

TEST_CASE("beam search excludes what changes logits, and not what narrows") {
    const auto refused = [](const char* field, const Change& change) {
        return refusal([&](SamplingParams& params) {
                   params.use_beam_search = true;
                   change(params);
               }) == std::string(field) + " cannot be combined with use_beam_search";
    };
    CHECK(refusal([](auto& p) { p.use_beam_search = true; }).empty());
    CHECK(refusal([](auto& p) {
              p.use_beam_search = true;
              p.top_p = 0.5f;
              p.stop_token_ids = {3};
          }).empty());
    CHECK(refused("repetition_penalty", [](auto& p) { p.repetition_penalty = 1.5f; }));
    CHECK(refused("logit_bias", [](auto& p) { p.logit_bias = {{1, 1.0f}}; }));
    CHECK(refused("logprobs", [](auto& p) { p.logprobs = 0; }));
    CHECK(refused("exponential_decay_length_penalty", [](auto& p) {
        p.end_boost = EndBoost{0, 1.0f};
    }));
}

TEST_CASE("a default of min_tokens gives way to max_tokens") {
    SamplingParams params;
    params.min_tokens = 7;
    params.bound_min_tokens();
    CHECK(params.min_tokens == 7);
    params.max_tokens = 5;
    params.bound_min_tokens();
    CHECK(params.min_tokens == 5);
}

TEST_CASE("the defaults are good") {
    CHECK(refusal([](SamplingParams&) {}).empty());
}

}  // namespace
}  // namespace nvllm
