// What a family needs to know in addition to its config and weights.
#pragma once

#include <cstdint>

namespace nvllm {

struct ModelSettings {
    int64_t max_model_len = 0;  // longest sequence the engine will run
};

}  // namespace nvllm
