// The one list of sampling parameters: names, ranges, help, and who can sample with them.
//
// The JSON reader, the command line, the server's schema, the worker's messages, the checks, the
// order of the samplers and the choice between host and device visit this list. A new parameter
// needs a member in SamplingParams, a row here, and its step in lib/decode/logits_processors.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/request/sampling_params.h"

namespace nvllm {

// Limits of a field. A limit also decides how the field is read, checked and described, with the
// type of the member. Bounds are inclusive. They are those of the OpenAI API if it has any;
// the others bound the memory and the time that one request can take.

inline constexpr int32_t kUnboundedCount = std::numeric_limits<int32_t>::max();

struct AnyValue {};

struct CountRange {
    int32_t min = 0;
    int32_t max = kUnboundedCount;
    bool minus_one_is_zero = false;  // in JSON, -1 means the same as 0
};

struct NumberRange {
    float min = 0.0f;
    float max = 1.0f;
    bool excludes_min = false;
};

// An id of the vocabulary.
struct TokenId {};

struct TokenIds {
    size_t max_count = 0;    // 0: the size of the vocabulary
    bool takes_one = false;  // JSON may give one id instead of a list
};

struct TokenSequences {
    size_t max_count;
    size_t max_tokens;  // of one sequence
};

struct TokenBiases {
    size_t max_count;
    NumberRange bias;
};

// Texts of at least one byte; JSON may give one instead of a list.
struct Texts {
    size_t max_count;
    size_t max_bytes;        // of one text
    size_t max_total_bytes;  // the detokenizer checks each of these bytes for each new token
};

// Different names of kNarrowingSamplers.
struct SamplerNames {};

struct EndBoostRange {
    CountRange start;
    NumberRange factor;
};

// Who can sample with a value that is not the default. The step that a new parameter adds is on the
// host until its row says otherwise.
enum class SampledBy : uint8_t {
    host,
    device,        // the tokens before must be known
    device_ahead,  // the token before may still be in flight on the device
};

// The flag is the field's name with dashes.
struct FlagTraits {
    bool exists = true;
    char letter = 0;
    std::array<std::string_view, 2> aliases = {};
    std::string_view value_name = {};
    std::string_view default_text = {};  // for members without a default value
};

struct SamplingFieldTraits {
    SampledBy sampled_by = SampledBy::host;
    // A step that `samplers` may name. The rows' order is the usual order of these steps.
    bool narrows = false;
    // Beams are compared by the model's own logprobs: nothing may change or choose them.
    bool excludes_beams = false;
    std::string_view json_alias = {};
    FlagTraits flag = {};
};

// Every parameter has its default.
inline const SamplingParams& initial_sampling() {
    static const SamplingParams params;
    return params;
}

template <typename Member, typename Limit>
struct SamplingField {
    std::string_view name;  // in JSON
    Member SamplingParams::*member;
    Limit limit;
    std::string_view help;
    SamplingFieldTraits traits;

    bool is_default(const SamplingParams& params) const {
        return params.*member == initial_sampling().*member;
    }
};

template <typename Member, typename Limit>
constexpr SamplingField<Member, Limit> sampling_field(std::string_view name,
                                                      Member SamplingParams::*member, Limit limit,
                                                      std::string_view help,
                                                      SamplingFieldTraits traits = {}) {
    return {name, member, limit, help, traits};
}

inline constexpr auto kSamplingFields = std::tuple{
    sampling_field("max_tokens", &SamplingParams::max_tokens, CountRange{.min = 1},
                   "Tokens to generate at most.",
                   {.sampled_by = SampledBy::device_ahead,
                    .json_alias = "max_completion_tokens",
                    .flag = {.letter = 'n',
                             .aliases = {"predict", "n-predict"},
                             .default_text = "to the context's end"}}),
    sampling_field("min_tokens", &SamplingParams::min_tokens, CountRange{},
                   "No end before this many tokens; at most max_tokens.",
                   {.sampled_by = SampledBy::device, .excludes_beams = true}),
    sampling_field(
        "min_length", &SamplingParams::min_length, CountRange{},
        "No end before prompt and output have this many tokens together.",
        {.sampled_by = SampledBy::device_ahead, .excludes_beams = true, .flag = {.exists = false}}),
    sampling_field("ignore_eos", &SamplingParams::ignore_eos, AnyValue{},
                   "The model's end tokens do not stop.", {.sampled_by = SampledBy::device_ahead}),
    sampling_field("stop", &SamplingParams::stop, Texts{1024, 4096, 16 * 1024},
                   "Texts that stop, of 16 KiB in all; the output ends before them.",
                   {.sampled_by = SampledBy::device_ahead,
                    .excludes_beams = true,
                    .flag = {.letter = 'r', .aliases = {"reverse-prompt"}, .value_name = "TEXT"}}),
    sampling_field("stop_token_ids", &SamplingParams::stop_token_ids, TokenIds{.max_count = 1024},
                   "Token ids that stop, in addition to the model's end tokens.",
                   {.sampled_by = SampledBy::device_ahead, .flag = {.value_name = "ID"}}),
    sampling_field("include_stop_str_in_output", &SamplingParams::include_stop_in_output,
                   AnyValue{}, "Show the text or token that stopped the output.",
                   {.sampled_by = SampledBy::device_ahead}),
    sampling_field("skip_special_tokens", &SamplingParams::skip_special_tokens, AnyValue{},
                   "Leave special tokens out of the text.",
                   {.sampled_by = SampledBy::device_ahead}),

    sampling_field(
        "temperature", &SamplingParams::temperature, NumberRange{0.0f, 2.0f},
        "0 takes the likeliest token; above 1 flattens the distribution.",
        {.sampled_by = SampledBy::device_ahead, .narrows = true, .flag = {.aliases = {"temp"}}}),
    sampling_field("top_n_sigma", &SamplingParams::top_n_sigma, NumberRange{0.0f, 100.0f},
                   "Keep tokens whose logit is at most this many standard deviations below the "
                   "best; 0: all.",
                   {.narrows = true}),
    sampling_field(
        "top_h", &SamplingParams::top_h, NumberRange{},
        "Keep the likeliest tokens that together have this share of the entropy; 0: all.",
        {.narrows = true}),
    sampling_field("top_k", &SamplingParams::top_k, CountRange{.minus_one_is_zero = true},
                   "Keep this many of the likeliest tokens; 0: all.",
                   {.sampled_by = SampledBy::device_ahead, .narrows = true}),
    sampling_field("top_p", &SamplingParams::top_p, NumberRange{.excludes_min = true},
                   "Keep the likeliest tokens that together have this probability.",
                   {.sampled_by = SampledBy::device_ahead, .narrows = true}),
    sampling_field("min_p", &SamplingParams::min_p, NumberRange{},
                   "Keep tokens with at least this share of the likeliest one's probability.",
                   {.sampled_by = SampledBy::device_ahead, .narrows = true}),
    sampling_field("typical_p", &SamplingParams::typical_p, NumberRange{.excludes_min = true},
                   "Keep the tokens of most typical surprise that together have this probability.",
                   {.narrows = true, .flag = {.aliases = {"typical"}}}),
    sampling_field("epsilon_cutoff", &SamplingParams::epsilon_cutoff, NumberRange{},
                   "Keep tokens with at least this probability; 0 and 1: all.", {.narrows = true}),
    sampling_field(
        "eta_cutoff", &SamplingParams::eta_cutoff, NumberRange{},
        "As epsilon_cutoff, with a lower bound if the distribution is flat; 0 and 1: all.",
        {.narrows = true}),
    sampling_field("samplers", &SamplingParams::sampler_order, SamplerNames{},
                   "The samplers to apply, in this order.",
                   {.flag = {.value_name = "NAME", .default_text = "all, in that order"}}),
    sampling_field("repetition_penalty", &SamplingParams::repetition_penalty,
                   NumberRange{0.0f, 10.0f, true},
                   "Divides positive and multiplies negative logits of the tokens in prompt and "
                   "output; above 1 makes them less likely.",
                   {.sampled_by = SampledBy::device,
                    .excludes_beams = true,
                    .flag = {.aliases = {"repeat-penalty"}}}),
    sampling_field("presence_penalty", &SamplingParams::presence_penalty, NumberRange{-2.0f, 2.0f},
                   "Subtracted once from the logits of tokens that were generated before.",
                   {.sampled_by = SampledBy::device, .excludes_beams = true}),
    sampling_field("frequency_penalty", &SamplingParams::frequency_penalty,
                   NumberRange{-2.0f, 2.0f},
                   "Subtracted from a token's logit for each time that it was generated.",
                   {.sampled_by = SampledBy::device, .excludes_beams = true}),
    sampling_field("logit_bias", &SamplingParams::logit_bias, TokenBiases{1024, {-100.0f, 100.0f}},
                   "Added to the logits of these token ids.",
                   {.sampled_by = SampledBy::device_ahead,
                    .excludes_beams = true,
                    .flag = {.letter = 'l', .value_name = "ID+BIAS"}}),
    sampling_field("allowed_token_ids", &SamplingParams::allowed_token_ids, TokenIds{},
                   "Only these token ids may be chosen; at most as many as the vocabulary has.",
                   {.sampled_by = SampledBy::device_ahead,
                    .excludes_beams = true,
                    .flag = {.value_name = "ID"}}),
    sampling_field(
        "bad_words", &SamplingParams::bad_words, TokenSequences{1024, 64},
        "Texts that are never written, of at most 64 tokens each.",
        {.sampled_by = SampledBy::device, .excludes_beams = true, .flag = {.exists = false}}),
    sampling_field(
        "no_repeat_ngram_size", &SamplingParams::no_repeat_ngram_size, CountRange{},
        "No sequence of this many tokens comes twice, the prompt's included; 0: any may.",
        {.excludes_beams = true}),
    sampling_field("suppress_tokens", &SamplingParams::suppress_tokens, TokenIds{},
                   "Token ids that are never chosen.",
                   {.excludes_beams = true, .flag = {.value_name = "ID"}}),
    sampling_field("begin_suppress_tokens", &SamplingParams::begin_suppress_tokens, TokenIds{},
                   "Token ids that are not chosen first.",
                   {.excludes_beams = true, .flag = {.exists = false}}),
    sampling_field("forced_bos_token_id", &SamplingParams::forced_bos_token_id, TokenId{},
                   "The token id that follows a prompt of one token.",
                   {.excludes_beams = true, .flag = {.exists = false}}),
    sampling_field("forced_eos_token_id", &SamplingParams::forced_eos_token_ids,
                   TokenIds{.takes_one = true},
                   "The token id, or one of these, that is the last of max_tokens.",
                   {.excludes_beams = true, .flag = {.exists = false}}),
    sampling_field("exponential_decay_length_penalty", &SamplingParams::end_boost,
                   EndBoostRange{{}, {0.0f, 10.0f, true}},
                   "A number of tokens and a factor: after this many tokens, the logits of end "
                   "tokens grow by powers of the factor.",
                   {.excludes_beams = true, .flag = {.exists = false}}),

    sampling_field("logprobs", &SamplingParams::logprobs, CountRange{},
                   "The logprob of each chosen token, and of this many of the likeliest tokens.",
                   {.sampled_by = SampledBy::device_ahead,
                    .excludes_beams = true,
                    .json_alias = "top_logprobs"}),
    sampling_field("prompt_logprobs", &SamplingParams::prompt_logprobs, CountRange{},
                   "The same for each token of the prompt, which is then computed in full.",
                   {.sampled_by = SampledBy::device, .excludes_beams = true}),
    sampling_field("n", &SamplingParams::n, CountRange{1, 128}, "Choices for each prompt.",
                   {.sampled_by = SampledBy::device_ahead}),
    sampling_field("best_of", &SamplingParams::best_of, CountRange{1, 128},
                   "Sequences to compute, of which the n likeliest are returned; at least n. With "
                   "beam search its width.",
                   {.sampled_by = SampledBy::device_ahead, .flag = {.default_text = "n"}}),
    sampling_field("use_beam_search", &SamplingParams::use_beam_search, AnyValue{},
                   "Search for the likeliest output instead of drawing tokens. Excludes what "
                   "changes logits, stop, min_tokens and logprobs.",
                   {.sampled_by = SampledBy::device_ahead}),
    sampling_field("length_penalty", &SamplingParams::length_penalty, NumberRange{-10.0f, 10.0f},
                   "Scores of beams are divided by their length to this power.",
                   {.sampled_by = SampledBy::device_ahead}),
    sampling_field("early_stopping", &SamplingParams::early_stopping, AnyValue{},
                   "When a beam search ends: yes (true), as soon as there are enough results; "
                   "never, when no better one is possible; no (false), when none is likely.",
                   {.sampled_by = SampledBy::device_ahead}),
    sampling_field(
        "seed", &SamplingParams::seed, AnyValue{},
        "The same request with the same seed has the same output, whatever else is in "
        "the batch.",
        {.sampled_by = SampledBy::device_ahead, .flag = {.letter = 's', .default_text = "random"}}),
};

// Whether the limit of this type of field is a `TokenExpert`.
template <typename TokenExpert, typename Field>
constexpr bool has_limit() {
    return std::is_same_v<TokenExpert, decltype(std::remove_cvref_t<Field>::limit)>;
}

// Calls visit(field) for each row, in order.
template <typename Visit>
constexpr void visit_sampling_fields(Visit&& visit) {
    std::apply([&](const auto&... fields) { (visit(fields), ...); }, kSamplingFields);
}

// Whether test(field) is true for each row. Stops at the first row for which it is not.
template <typename Test>
constexpr bool all_sampling_fields(Test&& test) {
    return std::apply([&](const auto&... fields) { return (test(fields) && ...); },
                      kSamplingFields);
}

constexpr size_t num_narrowing_samplers() {
    size_t count = 0;
    visit_sampling_fields([&](const auto& field) { count += field.traits.narrows ? 1 : 0; });
    return count;
}

// The steps that `samplers` may name, in their usual order.
inline constexpr auto kNarrowingSamplers = [] {
    std::array<std::string_view, num_narrowing_samplers()> names;
    size_t count = 0;
    visit_sampling_fields([&](const auto& field) {
        if (field.traits.narrows) names[count++] = field.name;
    });
    return names;
}();

}  // namespace nvllm
