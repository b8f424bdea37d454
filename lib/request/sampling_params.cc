// The range of every sampling parameter.
#include "lib/request/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

namespace nvllm {
namespace {

// The ranges of the OpenAI API where it has them; the rest keeps a request from filling memory with
// a list.
constexpr int32_t kMostContinuations = 16;
constexpr int32_t kMostSequences = 64;
constexpr int32_t kMostLogprobs = 20;
constexpr size_t kMostStopStrings = 16;
constexpr size_t kLongestStopString = 256;
constexpr size_t kMostStopTokens = 1024;
constexpr size_t kMostBiases = 1024;
constexpr size_t kMostBadWords = 1024;
constexpr size_t kLongestBadWord = 64;
constexpr float kMostSigma = 100.0f;
constexpr int32_t kMostTokens = std::numeric_limits<int32_t>::max();

// "<field> <complaint>".
Fault refuse(std::string_view field, std::string_view complaint) {
    return {ErrorKind::bad_data, fmt::format("{} {}", field, complaint), std::string(field)};
}

using Answer = std::optional<Fault>;

Answer check_count(std::string_view field, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return std::nullopt;
    if (most == kMostTokens)
        return refuse(field, fmt::format("is {}; it must be at least {}", value, least));
    return refuse(field, fmt::format("is {}; it must be from {} to {}", value, least, most));
}

// Both ends belong to the range. NaN is in no range.
Answer check_number(std::string_view field, float value, float least, float most) {
    if (value >= least && value <= most) return std::nullopt;
    return refuse(field, fmt::format("is {}; it must be from {} to {}", value, least, most));
}

// Above zero, up to `most`.
Answer check_positive(std::string_view field, float value, float most) {
    if (value > 0.0f && value <= most) return std::nullopt;
    return refuse(field, fmt::format("is {}; it must be above 0 and at most {}", value, most));
}

Answer check_length(std::string_view field, size_t length, size_t most) {
    if (length <= most) return std::nullopt;
    return refuse(field, fmt::format("has {} entries; it must have at most {}", length, most));
}

Answer check_token(std::string_view field, size_t index, int32_t token, int32_t vocab_size) {
    if (token >= 0 && token < vocab_size) return std::nullopt;
    return refuse(fmt::format("{}[{}]", field, index),
                  fmt::format("is token {}; it must be from 0 to {}", token, vocab_size - 1));
}

Answer check_numbers(const SamplingParams& params) {
    if (auto fault = check_number("temperature", params.temperature, 0.0f, 2.0f)) return fault;
    if (auto fault = check_positive("top_p", params.top_p, 1.0f)) return fault;
    if (auto fault = check_number("min_p", params.min_p, 0.0f, 1.0f)) return fault;
    if (auto fault = check_positive("typical_p", params.typical_p, 1.0f)) return fault;
    if (auto fault = check_number("top_n_sigma", params.top_n_sigma, 0.0f, kMostSigma))
        return fault;
    if (auto fault = check_positive("repetition_penalty", params.repetition_penalty, 10.0f))
        return fault;
    if (auto fault = check_number("presence_penalty", params.presence_penalty, -2.0f, 2.0f))
        return fault;
    return check_number("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f);
}

Answer check_counts(const SamplingParams& params) {
    if (auto fault = check_count("n", params.n, 1, kMostContinuations)) return fault;
    if (params.best_of) {
        if (auto fault = check_count("best_of", *params.best_of, params.n, kMostSequences))
            return fault;
    }
    if (auto fault = check_count("top_k", params.top_k, 0, kMostTokens)) return fault;
    if (params.max_tokens) {
        if (auto fault = check_count("max_tokens", *params.max_tokens, 1, kMostTokens))
            return fault;
    }
    const int32_t most_min = params.max_tokens.value_or(kMostTokens);
    if (auto fault = check_count("min_tokens", params.min_tokens, 0, most_min)) return fault;
    for (const auto& [field, count] : {std::pair("logprobs", params.logprobs),
                                       std::pair("prompt_logprobs", params.prompt_logprobs)}) {
        if (!count) continue;
        if (auto fault = check_count(field, *count, 0, kMostLogprobs)) return fault;
    }
    return std::nullopt;
}

Answer check_logit_bias(const SamplingParams& params, int32_t vocab_size) {
    if (auto fault = check_length("logit_bias", params.logit_bias.size(), kMostBiases))
        return fault;
    for (size_t i = 0; i < params.logit_bias.size(); ++i) {
        const auto [token, bias] = params.logit_bias[i];
        if (auto fault = check_token("logit_bias", i, token, vocab_size)) return fault;
        const std::string field = fmt::format("logit_bias[{}]", i);
        if (auto fault = check_number(field, bias, -100.0f, 100.0f)) return fault;
    }
    return std::nullopt;
}

Answer check_tokens(std::string_view field, const std::vector<int32_t>& tokens,
                    int32_t vocab_size) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (auto fault = check_token(field, i, tokens[i], vocab_size)) return fault;
    }
    return std::nullopt;
}

Answer check_vocabulary(const SamplingParams& params, int32_t vocab_size) {
    const auto& allowed = params.allowed_token_ids;
    if (auto fault =
            check_length("allowed_token_ids", allowed.size(), static_cast<size_t>(vocab_size)))
        return fault;
    if (auto fault = check_tokens("allowed_token_ids", allowed, vocab_size)) return fault;
    if (auto fault = check_length("bad_words", params.bad_words.size(), kMostBadWords))
        return fault;
    for (size_t i = 0; i < params.bad_words.size(); ++i) {
        const std::string field = fmt::format("bad_words[{}]", i);
        if (params.bad_words[i].empty()) return refuse(field, "has no tokens");
        if (auto fault = check_length(field, params.bad_words[i].size(), kLongestBadWord))
            return fault;
        if (auto fault = check_tokens(field, params.bad_words[i], vocab_size)) return fault;
    }
    return std::nullopt;
}

Answer check_stops(const SamplingParams& params, int32_t vocab_size) {
    if (auto fault = check_length("stop", params.stop.size(), kMostStopStrings)) return fault;
    for (size_t i = 0; i < params.stop.size(); ++i) {
        const size_t length = params.stop[i].size();
        if (length >= 1 && length <= kLongestStopString) continue;
        return refuse(
            fmt::format("stop[{}]", i),
            fmt::format("is {} bytes long; it must be from 1 to {}", length, kLongestStopString));
    }
    const size_t num_ids = params.stop_token_ids.size();
    if (auto fault = check_length("stop_token_ids", num_ids, kMostStopTokens)) return fault;
    return check_tokens("stop_token_ids", params.stop_token_ids, vocab_size);
}

// Beams are compared by the model's own logprobs: nothing may change or choose them.
Answer check_beams(const SamplingParams& params) {
    if (auto fault = check_number("length_penalty", params.length_penalty, -10.0f, 10.0f))
        return fault;
    if (!params.use_beam_search) return std::nullopt;
    const std::pair<std::string_view, bool> set[] = {
        {"repetition_penalty", params.repetition_penalty != 1.0f},
        {"presence_penalty", params.presence_penalty != 0.0f},
        {"frequency_penalty", params.frequency_penalty != 0.0f},
        {"logit_bias", !params.logit_bias.empty()},
        {"allowed_token_ids", !params.allowed_token_ids.empty()},
        {"bad_words", !params.bad_words.empty()},
        {"min_tokens", params.min_tokens > 0},
        {"stop", !params.stop.empty()},
        {"logprobs", params.logprobs.has_value()},
        {"prompt_logprobs", params.prompt_logprobs.has_value()}};
    for (const auto& [field, given] : set) {
        if (given) return refuse(field, "cannot be combined with use_beam_search");
    }
    return std::nullopt;
}

}  // namespace

std::optional<Fault> SamplingParams::check(int32_t vocab_size) const {
    if (auto fault = check_beams(*this)) return fault;
    if (auto fault = check_counts(*this)) return fault;
    if (auto fault = check_numbers(*this)) return fault;
    if (auto fault = check_logit_bias(*this, vocab_size)) return fault;
    if (auto fault = check_vocabulary(*this, vocab_size)) return fault;
    return check_stops(*this, vocab_size);
}

}  // namespace nvllm
