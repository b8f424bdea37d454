// What a scheduler's configuration must fulfil.
#include "lib/schedule/scheduler_config.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/schedule/policy.h"

namespace nvllm {
namespace {

void require_at_least(const char* flag, int32_t value, int32_t least, const char* why) {
    if (value >= least) return;
    throw Error(ErrorKind::bad_config,
                fmt::format("{} is {}; it must be at least {}{}", flag, value, least, why));
}

}  // namespace

void SchedulerConfig::check() const {
    require_at_least("--max-num-seqs", max_num_seqs, 1, "");
    require_at_least("--max-model-len", max_model_len, 2, ", a token of prompt and one of answer");
    require_at_least("--pipeline-depth", pipeline_depth, 1, "");
    require_at_least("--prefill-chunk-size", chunk_size, 0, "");
    require_at_least("--max-num-partial-prefills", max_num_partial_prefills, 0, "");
    require_at_least("--mixed-prefill-tokens", mixed_prefill_tokens, 0, "");
    require_at_least("--max-num-batched-tokens", max_num_batched_tokens, max_num_seqs,
                     " (--max-num-seqs), so that every running sequence can advance in each step");
    if (!enable_chunked_prefill) {
        require_at_least("--max-num-batched-tokens", max_num_batched_tokens, max_model_len,
                         " (--max-model-len) when prompts are not spread over several steps");
    }
    find_policy(policy);
    speculation.check();
}

}  // namespace nvllm
