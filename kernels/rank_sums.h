// Sums of the ranks' values, element by element in the order of the ranks.
//
// The order is the same for every element and every count, so a sum has the same bits however a
// message is cut. float16 and bfloat16 are summed in float32 and rounded once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace nvllm {

// results[k][i] = values[0][i] + values[1][i] + ... for `first` <= i < first + count and all k.
// Results may be the values. Throws bad_data for types other than f32, f16, bf16, f64, i32, i64.
// REQUIRES: at least one rank.
void sum_in_rank_order(DType dtype, std::span<const void* const> values,
                       std::span<void* const> results, int64_t first, int64_t count);

// The part of `count` elements that one rank sums: equal slices in the order of the ranks, the last
// ones shorter or empty.
struct RankSlice {
    int64_t first = 0;
    int64_t count = 0;
};
inline RankSlice slice_of_rank(int64_t count, int rank, int num_ranks) {
    const int64_t share = (count + num_ranks - 1) / num_ranks;
    const int64_t first = std::min(count, rank * share);
    return {first, std::min(share, count - first)};
}

}  // namespace nvllm
