// The tokens that end a sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/request/sampling_params.h"

namespace nvllm {

// Whether the token ends a sequence: it is one of stop_token_ids, or one of the model's end tokens
// and ignore_eos is not set.
inline bool is_end_token(const SamplingParams& params, std::span<const int32_t> eos_token_ids,
                         int32_t token) {
    const auto has = [token](std::span<const int32_t> ids) {
        return std::ranges::find(ids, token) != ids.end();
    };
    return has(params.stop_token_ids) || (!params.ignore_eos && has(eos_token_ids));
}

// All such tokens, ascending, each once.
std::vector<int32_t> end_token_ids(const SamplingParams& params,
                                   std::span<const int32_t> eos_token_ids);

}  // namespace nvllm
