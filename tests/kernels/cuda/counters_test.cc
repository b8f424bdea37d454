// Matrix loads and stores are counted without access hooks.
#include "kernels/cuda_emulation/counters.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/kernels/cuda/wrapper_kernels.h"

using nvllm::gpu::emulation::AccessCounts;

TEST_CASE("matrix loads are counted in every program") {
    alignas(16) uint16_t aligned[256] = {};
    std::vector<uint32_t> out(128);
    const AccessCounts counts;
    wrappers::load_matrices(wrappers::MatrixLoad::x4, aligned, out.data());
    CAPTURE(counts.describe());
    CHECK(counts.worst_conflict_factor() == 1);
    CHECK(!counts.places().empty());
}
