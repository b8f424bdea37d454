// What a family needs to know in addition to its config and weights.
#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace nvllm {

struct ModelSettings {
    int64_t max_model_len = 0;  // longest sequence the engine will run
    ScratchTerms scratch;
};

}  // namespace nvllm
