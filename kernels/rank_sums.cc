// Blocks of elements, accumulated rank by rank.
#include "kernels/rank_sums.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr int64_t kBlock = 512;  // elements

template <typename T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

// All of a block is read before any of it is written: results may be values.
template <typename T>
void sum_block(std::span<const void* const> values, std::span<void* const> results, int64_t first,
               int64_t count) {
    std::array<Accumulator<T>, kBlock> sums;
    for (size_t rank = 0; rank < values.size(); ++rank) {
        const T* const from = static_cast<const T*>(values[rank]) + first;
        for (int64_t i = 0; i < count; ++i) {
            const auto value = static_cast<Accumulator<T>>(from[i]);
            Accumulator<T>& sum = sums[static_cast<size_t>(i)];
            sum = rank == 0 ? value : sum + value;
        }
    }
    for (void* const result : results) {
        T* const to = static_cast<T*>(result) + first;
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[static_cast<size_t>(i)]);
    }
}

template <typename T>
void sum_all(std::span<const void* const> values, std::span<void* const> results, int64_t first,
             int64_t count) {
    for (int64_t done = 0; done < count; done += kBlock) {
        sum_block<T>(values, results, first + done, std::min(kBlock, count - done));
    }
}

}  // namespace

void sum_in_rank_order(DType dtype, std::span<const void* const> values,
                       std::span<void* const> results, int64_t first, int64_t count) {
    NVLLM_CHECK(!values.empty(), "a sum has at least one rank");
    switch (dtype) {
        case DType::f32:
            return sum_all<float>(values, results, first, count);
        case DType::f16:
            return sum_all<Float16>(values, results, first, count);
        case DType::bf16:
            return sum_all<BFloat16>(values, results, first, count);
        case DType::f64:
            return sum_all<double>(values, results, first, count);
        case DType::i32:
            return sum_all<int32_t>(values, results, first, count);
        case DType::i64:
            return sum_all<int64_t>(values, results, first, count);
        default:
            throw Error(ErrorKind::bad_data,
                        std::string("ranks do not sum values of type ") + dtype_name(dtype));
    }
}

}  // namespace nvllm
