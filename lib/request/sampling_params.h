// How the tokens of a request are chosen and when it stops: plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace nvllm {

// When a beam search ends, as in transformers.
enum class EarlyStopping : uint8_t {
    no,     // when the best beam, at its present length, is worse than the worst hypothesis
    yes,    // as soon as there are as many hypotheses as beams
    never,  // when no beam can become better than the worst hypothesis
};

// After `start` tokens the logits of end tokens grow: at the i-th token after it by factor^i - 1
// times their magnitude.
struct EndBoost {
    int32_t start = 0;
    float factor = 1.0f;

    bool operator==(const EndBoost&) const = default;
};

// Defaults leave the model's distribution unchanged. Field names and meanings are those of the
// OpenAI API and of vLLM, else of transformers' generate(). Each member has a row in
// sampling_fields.h.
struct SamplingParams {
    int32_t n = 1;  // choices: sequences that are returned
    // Sequences that are computed, of which the n with the highest sum of logprobs are returned; or
    // the width of the beam search. Empty: n.
    std::optional<int32_t> best_of;
    bool use_beam_search = false;  // the likeliest sequences instead of drawn ones
    float length_penalty = 1.0f;   // of beams: scores are divided by length^this
    EarlyStopping early_stopping = EarlyStopping::no;
    float temperature = 1.0f;     // 0: greedy
    int32_t top_k = 0;            // keep the k likeliest; 0: all
    float top_p = 1.0f;           // keep the smallest set with this much probability
    float min_p = 0.0f;           // keep tokens with at least this share of the likeliest one's
    float typical_p = 1.0f;       // keep those of most typical surprise with this much probability
    float top_n_sigma = 0.0f;     // keep logits this many deviations below the best; 0: all
    float top_h = 0.0f;           // keep the likeliest with this share of the entropy; 0: all
    float epsilon_cutoff = 0.0f;  // keep tokens with at least this probability; 0 and 1: all
    float eta_cutoff = 0.0f;      // the same, less where the distribution is flat; 0 and 1: all
    // Names of kNarrowingSamplers in the order to apply them; empty: the usual order.
    std::vector<std::string> sampler_order;
    std::vector<int32_t> allowed_token_ids;       // nothing else may be chosen; empty: all
    std::vector<std::vector<int32_t>> bad_words;  // token sequences that are never completed
    int32_t no_repeat_ngram_size = 0;  // no sequence of this many tokens comes twice; 0: any may
    std::vector<int32_t> suppress_tokens;        // are never chosen
    std::vector<int32_t> begin_suppress_tokens;  // are not chosen first
    std::optional<int32_t> forced_bos_token_id;  // follows a prompt of one token
    std::vector<int32_t> forced_eos_token_ids;   // one of them is the last of max_tokens
    std::optional<EndBoost> end_boost;           // exponential_decay_length_penalty
    float repetition_penalty = 1.0f;  // divides positive, multiplies negative logits of seen tokens
    float presence_penalty = 0.0f;    // subtracted once for tokens generated before
    float frequency_penalty = 0.0f;   // subtracted for each time a token was generated
    std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logits of these ids
    std::optional<int32_t> max_tokens;    // generated at most; empty: to the end of the context
    int32_t min_tokens = 0;               // no end token before this many
    int32_t min_length = 0;               // the same, of prompt and output together
    bool ignore_eos = false;              // the model's end tokens do not stop
    std::vector<std::string> stop;        // strings that stop, found in the text
    std::vector<int32_t> stop_token_ids;  // ids that stop, in addition to eos
    bool include_stop_in_output = false;  // show the stop string or the text of the stop token
    bool skip_special_tokens = true;      // special tokens leave no text
    // Report the logprob of the chosen token and of this many of the likeliest tokens.
    std::optional<int32_t> logprobs;
    // The same for every prompt token except the first; the prompt is then computed and not looked
    // up in the prefix cache.
    std::optional<int32_t> prompt_logprobs;
    std::optional<uint64_t> seed;  // empty: drawn by the engine

    bool greedy() const { return temperature == 0.0f; }
    // Sequences that are computed for the request.
    int32_t num_sequences() const { return best_of.value_or(n); }

    // A min_tokens that is only the model's default gives way to a smaller max_tokens of the
    // request.
    void bound_min_tokens();

    // The first field that is out of range, named as in JSON, with its value and the range
    // (bad_data); empty if all are in range.
    std::optional<Fault> check(int32_t vocab_size) const;
    // The same for counts alone, `n` and `best_of` among them: before memory is reserved for this
    // many sequences.
    std::optional<Fault> check_counts() const;
};

}  // namespace nvllm
