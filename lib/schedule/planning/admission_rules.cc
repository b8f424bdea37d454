// The rules of admission.
#include "lib/schedule/planning/admission_rules.h"

#include <algorithm>

namespace nvllm {

bool is_ready(const ScheduledSequence& scheduled, const SchedulingContext& context) {
    const CacheManager& cache = context.cache;
    const ScheduledRequest& request = *scheduled.request;
    if (scheduled.lease_end_s || request.is_paused_for_client) return false;
    if (!context.adapters.may_run(scheduled)) return false;
    if (cache.is_reading(scheduled.cache) && context.now_s < scheduled.reads_until_s) return false;
    if (request.beams != nullptr) return true;
    if (!cache.parts().prefix_cache.enabled() || request.prompt_computed) return true;
    // A prompt that fills no block leaves nothing to share.
    if (scheduled.sequence.num_prompt_tokens <= cache.block_size()) return true;
    return request.prompt_sequence == scheduled.sequence.id;
}

bool reads_early_positions(const ScheduledSequence& scheduled) {
    const std::optional<PoolingParams>& pooling = scheduled.request->request.pooling;
    return pooling && pooling->reads_early_positions();
}

bool may_skip_prompt(const ScheduledSequence& scheduled) {
    const ScheduledRequest& request = *scheduled.request;
    if (reads_early_positions(scheduled)) return false;
    return !request.request.sampling.prompt_logprobs || scheduled.sequence.index != 0 ||
           request.prompt_computed;
}

int32_t slots_to_take(const ScheduledSequence& scheduled) {
    const BeamGroup* beams = scheduled.request->beams.get();
    if (beams == nullptr) return 1;
    return beams->has_slots ? 0 : scheduled.request->request.sampling.num_sequences();
}

bool may_grow(const ScheduledSequence& scheduled, const CacheManager& cache) {
    const int32_t num_positions = scheduled.sequence.longest_length - 1;
    return num_positions > scheduled.cache.table(0).size() * cache.block_size();
}

int32_t num_growing(const SchedulingContext& context, const RunningSet& running,
                    const WaitingQueue& waiting) {
    const auto grows = [&](const ScheduledSequence* scheduled) {
        return !scheduled->cache.empty() && may_grow(*scheduled, context.cache);
    };
    auto count = std::ranges::count_if(running.all(), grows);
    if (context.queue_may_hold_blocks()) count += std::ranges::count_if(waiting.all(), grows);
    return static_cast<int32_t>(count);
}

}  // namespace nvllm
