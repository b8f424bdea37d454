// The range of every sampling parameter.
#include "lib/request/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "lib/request/sampling_limits.h"

namespace nvllm {
namespace {

using namespace sampling_limits;

// "<field> <complaint>".
Fault refuse(std::string_view field, std::string_view complaint) {
    return {ErrorKind::bad_data, fmt::format("{} {}", field, complaint), std::string(field)};
}

using Response = std::optional<Fault>;

Response check_count(std::string_view field, int64_t value, Counts range) {
    if (value >= range.least && value <= range.most) return std::nullopt;
    if (range.most == kUnbounded) {
        return refuse(field, fmt::format("is {}; it must be at least {}", value, range.least));
    }
    return refuse(field,
                  fmt::format("is {}; it must be from {} to {}", value, range.least, range.most));
}

// NaN is in no range.
Response check_number(std::string_view field, float value, Numbers range) {
    const bool is_enough = range.is_above ? value > range.least : value >= range.least;
    if (is_enough && value <= range.most) return std::nullopt;
    const char* const bounds = range.is_above ? "is {}; it must be above {} and at most {}"
                                              : "is {}; it must be from {} to {}";
    return refuse(field, fmt::format(fmt::runtime(bounds), value, range.least, range.most));
}

Response check_length(std::string_view field, size_t length, size_t most) {
    if (length <= most) return std::nullopt;
    return refuse(field, fmt::format("has {} entries; it must have at most {}", length, most));
}

Response check_token(std::string_view field, size_t index, int32_t token, int32_t vocab_size) {
    if (token >= 0 && token < vocab_size) return std::nullopt;
    return refuse(fmt::format("{}[{}]", field, index),
                  fmt::format("is token {}; it must be from 0 to {}", token, vocab_size - 1));
}

Response check_numbers(const SamplingParams& params) {
    if (auto fault = check_number("temperature", params.temperature, kTemperature)) return fault;
    if (auto fault = check_number("top_p", params.top_p, kTopP)) return fault;
    if (auto fault = check_number("min_p", params.min_p, kMinP)) return fault;
    if (auto fault = check_number("typical_p", params.typical_p, kTypicalP)) return fault;
    if (auto fault = check_number("top_n_sigma", params.top_n_sigma, kTopNSigma)) return fault;
    if (auto fault = check_number("top_h", params.top_h, kTopH)) return fault;
    if (auto fault = check_number("epsilon_cutoff", params.epsilon_cutoff, kCutoff)) return fault;
    if (auto fault = check_number("eta_cutoff", params.eta_cutoff, kCutoff)) return fault;
    if (auto fault =
            check_number("repetition_penalty", params.repetition_penalty, kRepetitionPenalty))
        return fault;
    if (auto fault = check_number("presence_penalty", params.presence_penalty, kPresencePenalty))
        return fault;
    return check_number("frequency_penalty", params.frequency_penalty, kFrequencyPenalty);
}

Response check_logit_bias(const SamplingParams& params, int32_t vocab_size) {
    if (auto fault = check_length("logit_bias", params.logit_bias.size(), kMaxBiases)) return fault;
    for (size_t i = 0; i < params.logit_bias.size(); ++i) {
        const auto [token, bias] = params.logit_bias[i];
        if (auto fault = check_token("logit_bias", i, token, vocab_size)) return fault;
        const std::string field = fmt::format("logit_bias[{}]", i);
        if (auto fault = check_number(field, bias, kBias)) return fault;
    }
    return std::nullopt;
}

Response check_tokens(std::string_view field, const std::vector<int32_t>& tokens,
                      int32_t vocab_size) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (auto fault = check_token(field, i, tokens[i], vocab_size)) return fault;
    }
    return std::nullopt;
}

Response check_vocabulary(const SamplingParams& params, int32_t vocab_size) {
    const auto& allowed = params.allowed_token_ids;
    if (auto fault =
            check_length("allowed_token_ids", allowed.size(), static_cast<size_t>(vocab_size)))
        return fault;
    if (auto fault = check_tokens("allowed_token_ids", allowed, vocab_size)) return fault;
    if (auto fault = check_length("bad_words", params.bad_words.size(), kMaxBadWords)) return fault;
    for (size_t i = 0; i < params.bad_words.size(); ++i) {
        const std::string field = fmt::format("bad_words[{}]", i);
        if (params.bad_words[i].empty()) return refuse(field, "has no tokens");
        if (auto fault = check_length(field, params.bad_words[i].size(), kLongestBadWordTokens))
            return fault;
        if (auto fault = check_tokens(field, params.bad_words[i], vocab_size)) return fault;
    }
    return std::nullopt;
}

Response check_steered_tokens(const SamplingParams& params, int32_t vocab_size) {
    const std::pair<std::string_view, const std::vector<int32_t>*> lists[] = {
        {"suppress_tokens", &params.suppress_tokens},
        {"begin_suppress_tokens", &params.begin_suppress_tokens},
        {"forced_eos_token_id", &params.forced_eos_token_ids}};
    for (const auto& [field, tokens] : lists) {
        if (auto fault = check_length(field, tokens->size(), static_cast<size_t>(vocab_size)))
            return fault;
        if (auto fault = check_tokens(field, *tokens, vocab_size)) return fault;
    }
    if (params.forced_bos_token_id) {
        if (auto fault =
                check_tokens("forced_bos_token_id", {*params.forced_bos_token_id}, vocab_size))
            return fault;
    }
    if (!params.end_boost) return std::nullopt;
    if (auto fault =
            check_count("exponential_decay_length_penalty[0]", params.end_boost->start, kMinTokens))
        return fault;
    return check_number("exponential_decay_length_penalty[1]", params.end_boost->factor, kEndBoost);
}

Response check_stops(const SamplingParams& params, int32_t vocab_size) {
    if (auto fault = check_length("stop", params.stop.size(), kMaxStopStrings)) return fault;
    size_t num_bytes = 0;
    for (size_t i = 0; i < params.stop.size(); ++i) {
        const size_t length = params.stop[i].size();
        num_bytes += length;
        if (length >= 1 && length <= kLongestStopStringBytes) continue;
        return refuse(fmt::format("stop[{}]", i),
                      fmt::format("is {} bytes long; it must be from 1 to {}", length,
                                  kLongestStopStringBytes));
    }
    if (num_bytes > kMaxStopBytes) {
        return refuse("stop", fmt::format("has {} bytes in all; it must have at most {}", num_bytes,
                                          kMaxStopBytes));
    }
    const size_t num_ids = params.stop_token_ids.size();
    if (auto fault = check_length("stop_token_ids", num_ids, kMaxStopTokens)) return fault;
    return check_tokens("stop_token_ids", params.stop_token_ids, vocab_size);
}

// Beams are compared by the model's own logprobs: nothing may change or choose them.
Response check_beams(const SamplingParams& params) {
    if (auto fault = check_number("length_penalty", params.length_penalty, kLengthPenalty))
        return fault;
    if (!params.use_beam_search) return std::nullopt;
    const std::pair<std::string_view, bool> set[] = {
        {"repetition_penalty", params.repetition_penalty != 1.0f},
        {"presence_penalty", params.presence_penalty != 0.0f},
        {"frequency_penalty", params.frequency_penalty != 0.0f},
        {"logit_bias", !params.logit_bias.empty()},
        {"allowed_token_ids", !params.allowed_token_ids.empty()},
        {"bad_words", !params.bad_words.empty()},
        {"no_repeat_ngram_size", params.no_repeat_ngram_size > 0},
        {"suppress_tokens", !params.suppress_tokens.empty()},
        {"begin_suppress_tokens", !params.begin_suppress_tokens.empty()},
        {"forced_bos_token_id", params.forced_bos_token_id.has_value()},
        {"forced_eos_token_id", !params.forced_eos_token_ids.empty()},
        {"exponential_decay_length_penalty", params.end_boost.has_value()},
        {"min_tokens", params.min_tokens > 0},
        {"min_length", params.min_length > 0},
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
    if (auto fault = check_counts()) return fault;
    if (auto fault = check_numbers(*this)) return fault;
    if (auto fault = check_logit_bias(*this, vocab_size)) return fault;
    if (auto fault = check_vocabulary(*this, vocab_size)) return fault;
    if (auto fault = check_steered_tokens(*this, vocab_size)) return fault;
    return check_stops(*this, vocab_size);
}

std::optional<Fault> SamplingParams::check_counts() const {
    if (auto fault = check_count("n", n, kN)) return fault;
    if (best_of) {
        if (auto fault = check_count("best_of", *best_of, {n, kBestOf.most})) return fault;
    }
    if (auto fault = check_count("top_k", top_k, kTopK)) return fault;
    if (max_tokens) {
        if (auto fault = check_count("max_tokens", *max_tokens, kMaxTokens)) return fault;
    }
    const int32_t most_min = max_tokens.value_or(kMinTokens.most);
    if (auto fault = check_count("min_tokens", min_tokens, {kMinTokens.least, most_min}))
        return fault;
    if (auto fault = check_count("min_length", min_length, kMinLength)) return fault;
    if (auto fault = check_count("no_repeat_ngram_size", no_repeat_ngram_size, kNoRepeatNgramSize))
        return fault;
    for (const auto& [field, count] :
         {std::pair("logprobs", logprobs), std::pair("prompt_logprobs", prompt_logprobs)}) {
        if (!count) continue;
        if (auto fault = check_count(field, *count, kLogprobs)) return fault;
    }
    return std::nullopt;
}

}  // namespace nvllm
