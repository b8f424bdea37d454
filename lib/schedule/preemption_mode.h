// How blocks of a victim are freed.
#pragma once

#include <cstdint>

namespace nvllm {

enum class PreemptionMode : uint8_t {
    automatic,  // whichever is expected to take less time
    recompute,
    swap,  // as long as there is room in host memory
};

}  // namespace nvllm
