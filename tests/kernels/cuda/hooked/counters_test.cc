// Bank conflicts and sectors are counted as the hardware's rules say.
#include "kernels/cuda_emulation/counters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/cuda/planted_bugs.h"
#include "tests/kernels/cuda/sample_kernels.h"

using nvllm::gpu::emulation::AccessCounts;

namespace {

double conflicts_of_columns(int stride) {
    std::vector<uint32_t> out(32);
    const AccessCounts counts;
    planted::read_shared_columns(stride, out.data());
    return counts.worst_conflict_factor();
}

double sectors_with_stride(int stride) {
    const std::vector<uint32_t> in(1024);
    std::vector<uint32_t> out(32);
    const AccessCounts counts;
    planted::read_global_with_stride(in.data(), stride, out.data());
    double worst = 0;  // of reads: the writes are dense, and begin where the vector does
    for (const auto& place : counts.places()) {
        if (place.access == nvllm::gpu::emulation::Access::read)
            worst = std::max(worst, place.sector_factor());
    }
    return worst;
}

}  // namespace

TEST_CASE("lanes that meet in a bank cost passes") {
    CHECK(conflicts_of_columns(1) == 1);
    CHECK(conflicts_of_columns(2) == 2);
    CHECK(conflicts_of_columns(8) == 8);
    CHECK(conflicts_of_columns(32) == 32);
    CHECK(conflicts_of_columns(33) == 1);
}

TEST_CASE("lanes far apart cost sectors") {
    CHECK(sectors_with_stride(1) <= 1.25);  // 128 bytes, which may begin within a sector
    CHECK(sectors_with_stride(8) == 8);
    CHECK(sectors_with_stride(32) == 8);
}

TEST_CASE("a padded tile has no conflicts") {
    std::vector<float> in(64 * 64);
    std::vector<float> out(64 * 64);
    const AccessCounts counts;
    sample::transpose(in.data(), out.data(), 64, 64);
    CAPTURE(counts.describe());
    CHECK(counts.worst_conflict_factor() == 1);
    CHECK(!counts.places().empty());
}
