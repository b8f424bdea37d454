// Paged key-value storage on the CPU.
#include "kernels/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cpu/rows.h"

namespace nvllm::cpu {
namespace {

// One token's values of all heads into their slot.
void write_values(const ConstTensorView& rows, int64_t token, int64_t slot,
                  const TensorView& cache) {
    const int64_t block_size = cache.dim(2);
    const int64_t head_dim = cache.dim(3);
    const auto narrow = kernels().narrow[float_type_index(cache.dtype)];
    const int64_t base = slot / block_size * cache.stride(0) + slot % block_size * cache.stride(2);
    for (int64_t head = 0; head < cache.dim(1); ++head) {
        narrow(rows.as<float>() + token * rows.stride(0) + head * rows.stride(1),
               element(cache.data, cache.dtype, base + head * cache.stride(1)), head_dim);
    }
}

template <typename Bits>
void scatter(const std::byte* values, int64_t count, int64_t stride, void* target) {
    for (int64_t i = 0; i < count; ++i) {
        Bits bits;
        std::memcpy(&bits, values + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
        static_cast<Bits*>(target)[i * stride] = bits;
    }
}

// One token's keys of all heads: each value lies a block's length after the one before.
void write_keys(const ConstTensorView& rows, int64_t token, int64_t slot, const TensorView& cache) {
    constexpr int64_t kPart = 64;
    const int64_t head_dim = cache.dim(2);
    const int64_t block_size = cache.dim(3);
    const auto narrow = kernels().narrow[float_type_index(cache.dtype)];
    const auto scatter_part = dtype_bytes(cache.dtype) == 2 ? scatter<uint16_t> : scatter<uint32_t>;
    const int64_t base = slot / block_size * cache.stride(0) + slot % block_size;
    alignas(64) std::byte part[kPart * sizeof(float)];
    for (int64_t head = 0; head < cache.dim(1); ++head) {
        const float* row = rows.as<float>() + token * rows.stride(0) + head * rows.stride(1);
        for (int64_t i = 0; i < head_dim; i += kPart) {
            const int64_t count = std::min(kPart, head_dim - i);
            narrow(row + i, part, count);
            scatter_part(
                part, count, block_size,
                element(cache.data, cache.dtype, base + head * cache.stride(1) + i * block_size));
        }
    }
}

}  // namespace

void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache) {
    const int64_t num_slots = value_cache.dim(0) * value_cache.dim(2);
    const int64_t width = 2 * value_cache.dim(1) * value_cache.dim(3);
    parallel_rows(context, slots.dim(0), width, [&](int64_t token) {
        const int64_t slot = slots.as<int64_t>()[token];
        NVLLM_CHECK(slot >= 0 && slot < num_slots, "write_kv: no slot " + std::to_string(slot));
        write_keys(keys, token, slot, key_cache);
        write_values(values, token, slot, value_cache);
    });
}

void copy_blocks(const Context&, const ConstTensorView& pairs, const ConstTensorView& source,
                 const TensorView& target) {
    const int64_t block = target.stride(0);
    const size_t bytes = static_cast<size_t>(block) * dtype_bytes(target.dtype);
    // In order: a block may be the target of one pair and the source of a later one.
    for (int64_t i = 0; i < pairs.dim(0); ++i) {
        const int64_t from = pairs.as<int32_t>()[2 * i];
        const int64_t to = pairs.as<int32_t>()[2 * i + 1];
        NVLLM_CHECK(
            from >= 0 && from < source.dim(0) && to >= 0 && to < target.dim(0),
            "copy_blocks: no such pair " + std::to_string(from) + ", " + std::to_string(to));
        void* const to_block = element(target.data, target.dtype, to * block);
        const void* const from_block = element(source.data, source.dtype, from * block);
        if (from_block != to_block) std::memcpy(to_block, from_block, bytes);
    }
}

}  // namespace nvllm::cpu
