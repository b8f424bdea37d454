// Greedy choice and random draw over processed logits.
#include "lib/decode/sampler.h"

#include "kernels/random.h"
#include "lib/decode/logits_processors.h"
#include "lib/decode/logprobs.h"

namespace nvllm {
namespace {

double random_point(const SequenceSamplingState& state) {
    return token_point(state.seed(), static_cast<uint32_t>(state.num_generated()),
                       static_cast<uint32_t>(state.continuation_index()));
}

// The row as the model gave it, kept aside when processors are about to change it and it is asked
// for afterwards.
std::span<const float> keep_raw(const SequenceSamplingState& state, std::span<const float> logits,
                                bool changes, std::vector<float>& buffer) {
    if (!state.params().logprobs || !changes) return logits;
    buffer.assign(logits.begin(), logits.end());
    return buffer;
}

Result<int32_t> choose(const SequenceSamplingState& state, std::span<float> logits,
                       Scores& scores) {
    scores.reset(logits);
    change_row(state, scores);
    const RowCheck changed = check_row(logits);
    if (!changed.valid) return no_token_left();
    if (state.params().greedy()) return changed.token_id;
    narrow(state, scores);
    return scores.draw(random_point(state)).token_id;
}

}  // namespace

Fault not_numbers() {
    return {
        ErrorKind::internal,
        "the model's logits for this sequence are not finite numbers (NaN or infinity), so no "
        "token "
        "can be chosen; look for NaN or infinity in the weights, or an activation that overflows",
        "", "nonfinite_logits"};
}

Fault no_token_left() {
    return {ErrorKind::bad_data,
            "no token is left to choose: logit_bias, min_tokens and the penalties forbid every one "
            "that the grammar allows, if there is one, or drive scores to infinity"};
}

Result<SampledToken> sample(const SequenceSamplingState& state, std::span<float> logits,
                            SamplerScratch& scratch, std::span<const uint32_t> token_mask) {
    const RowCheck raw = check_row(logits);
    if (!raw.valid) return not_numbers();
    const bool changes = !token_mask.empty() || changes_row(state);
    const std::span<const float> raw_logits = keep_raw(state, logits, changes, scratch.raw_logits);
    if (!token_mask.empty()) forbid_all_but(token_mask, logits);
    const bool is_settled = state.params().greedy() && !changes;
    const Result<int32_t> choice =
        is_settled ? Result<int32_t>(raw.token_id) : choose(state, logits, scratch.scores);
    if (!choice.ok()) return choice.fault();
    SampledToken token{*choice, std::nullopt};
    if (const auto num_top = state.params().logprobs) {
        token.logprobs.emplace();
        compute_logprobs(raw_logits, token.token_id, *num_top, scratch.scores, *token.logprobs);
    }
    return token;
}

std::optional<Fault> find_candidates(std::span<const float> logits, int32_t count,
                                     SamplerScratch& scratch, std::vector<TokenLogprob>& result) {
    SampledLogprobs scored;
    if (auto fault = score_token(logits, 0, count, scratch, scored)) return fault;
    result = std::move(scored.top);
    return std::nullopt;
}

std::optional<Fault> score_token(std::span<const float> logits, int32_t token, int32_t num_top,
                                 SamplerScratch& scratch, SampledLogprobs& result) {
    if (!check_row(logits).valid) return not_numbers();
    compute_logprobs(logits, token, num_top, scratch.scores, result);
    return std::nullopt;
}

}  // namespace nvllm
