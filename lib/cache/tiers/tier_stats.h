// What one tier of the prefix cache behind the device did.
#pragma once

#include <cstdint>

namespace nvllm {

struct TierStats {
    int64_t blocks_held = 0;     // now
    int64_t blocks_kept = 0;     // copied into the tier
    int64_t blocks_back = 0;     // and back from there
    int64_t blocks_dropped = 0;  // gave their place to others
    int64_t hit_tokens = 0;      // of prompts, found here and not on the device
};

}  // namespace nvllm
