// Checks of end tokens, stop ids and lengths.
#include "lib/schedule/stop_check.h"

#include "lib/request/end_tokens.h"

namespace nvllm {
namespace {

bool stops(const Request& request, int32_t token) {
    return is_end_token(request.sampling, request.eos_token_ids, token);
}

}  // namespace

StopDecision check_tokens(const Sequence& sequence, const Request& request, int32_t max_model_len,
                          std::span<const int32_t> token_ids) {
    const SamplingParams& sampling = request.sampling;
    StopDecision decision;
    decision.sequence = sequence.id;
    for (const int32_t token : token_ids) {
        ++decision.num_accepted;
        const int32_t num_generated = sequence.num_generated() + decision.num_accepted;
        const int32_t length = sequence.num_prompt_tokens + num_generated;
        if (num_generated >= sampling.min_tokens && stops(request, token)) {
            decision.finish = FinishReason::stop;
            decision.stop_token_id = token;
        } else if (length >= max_model_len ||
                   (sampling.max_tokens && num_generated >= *sampling.max_tokens)) {
            decision.finish = FinishReason::length;
        }
        if (decision.finish) break;
    }
    return decision;
}

}  // namespace nvllm
