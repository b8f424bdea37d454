// Whether a request can ever run, and what it may need at most.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/result.h"
#include "lib/cache/cache_manager.h"
#include "lib/request/request.h"
#include "lib/schedule/scheduler_config.h"

namespace nvllm {

// Tokens of prompt and output together, at most.
int32_t longest_length(const SchedulerConfig& config, int32_t num_prompt_tokens,
                       const Request& request);

// AddedSequence::rope_choice of a request of such a length. It does not change later: it follows
// from the longest length.
int32_t rope_choice(const SchedulerConfig& config, int32_t length, const Request& request);

// On which the keys of its cached blocks depend beside its tokens.
CacheKeyExtras cache_key_extras(const SchedulerConfig& config, const Request& request);

// Blocks of a group that a request of such a length holds at most at any time. Beams advance
// together: all of them must fit at once.
int32_t max_blocks(const SchedulerConfig& config, const CacheManager& cache, int32_t group,
                   int32_t length, const Request& request);

// Why the request can never run, with the numbers and the flag to change; empty when it can.
std::optional<Fault> why_never(const SchedulerConfig& config, const CacheManager& cache,
                               const Request& request);

}  // namespace nvllm
