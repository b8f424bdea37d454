// The shape of a launch.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/error.h"

namespace nvllm::gpu {

// Blocks of a grid or threads of a block, along three axes. Takes any integers: {tokens, heads}.
struct Extent {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;

    Extent() = default;
    template <std::integral X, std::integral Y = unsigned, std::integral Z = unsigned>
    Extent(X along_x, Y along_y = 1, Z along_z = 1)  // NOLINT: meant to be implicit
        : x(checked(along_x)), y(checked(along_y)), z(checked(along_z)) {}

  private:
    template <std::integral T>
    static unsigned checked(T count) {
        NVLLM_CHECK(
            count > 0 && static_cast<uint64_t>(count) <= std::numeric_limits<int32_t>::max(),
            "a launch needs at least one block and one thread along each axis, and at most 2^31 - "
            "1");
        return static_cast<unsigned>(count);
    }
};

// Dynamic shared memory that a launch takes without asking the runtime for more: of the 48 KiB that
// every kernel has, what static arrays beside it leave.
constexpr size_t kSharedWithoutAsking = size_t{32} << 10;

struct Launch {
    Extent grid;
    Extent block;
    size_t shared_bytes = 0;  // dynamic shared memory of a block
    void* stream = nullptr;   // Context::stream
    // Blocks may be put in place while the kernel before it still runs, which hides what a launch
    // takes (programmatic dependent launch, sm_90), where the compiled kernel waits. REQUIRES:
    // before wait_for_work_before() the kernel reads nothing that work writes, but may read
    // weights, and writes only shared memory.
    bool overlaps = false;
};

}  // namespace nvllm::gpu
