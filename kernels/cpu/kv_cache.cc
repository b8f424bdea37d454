// Paged key-value storage on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

constexpr int64_t kMaxTokens = 32;  // whose keys are written together

// Storage of keys or values, and how their values are rounded: as they are, or divided by the scale
// of the layer or of each head.
struct Storage {
    const TensorView& cache;
    const TensorView& scales;
    void (*narrow)(const float* x, void* out, int64_t count);  // null: scaled
    void (*narrow_scaled)(const float* x, float factor, void* out, int64_t count);
    float factor;

    Storage(const TensorView& storage, float scale, const TensorView& head_scales)
        : cache(storage), scales(head_scales), factor(1.0f / scale) {
        const bool is_scaled = dtype_bytes(cache.dtype) == 1;
        narrow = is_scaled ? nullptr : kernels().narrow[float_type_index(cache.dtype)];
        narrow_scaled = cache.dtype == DType::i8 ? kernels().narrow_i8 : kernels().narrow_f8;
    }
    bool has_head_scales() const { return cache.dtype == DType::i8; }
};

// What a head's values are multiplied with before they are rounded; int8 writes its scale.
float factor_of(const Storage& storage, const float* row, int64_t head_dim, int64_t slot,
                int64_t head) {
    constexpr float largest = 127.0f;
    constexpr float smallest_row = 1e-35f;  // 127 parts of which still have a reciprocal
    if (!storage.has_head_scales()) return storage.factor;
    const float magnitude = kernels().magnitude(row, head_dim);
    const TensorView& scales = storage.scales;
    float& scale = scales.as<float>()[slot / scales.dim(2) * scales.stride(0) +
                                      head * scales.stride(1) + slot % scales.dim(2)];
    const bool has_values = magnitude >= smallest_row;
    scale = has_values || std::isnan(magnitude) ? magnitude / largest : 0.0f;
    return has_values ? largest / magnitude : 0.0f;
}

// A head with a NaN, which is no number of int8, has a factor of 0.
void narrow_scaled(const Storage& storage, const float* x, float factor, void* out, int64_t count) {
    if (factor == 0.0f) {
        std::memset(out, 0, static_cast<size_t>(count));
    } else {
        storage.narrow_scaled(x, factor, out, count);
    }
}

// One token's values of all heads into their slot.
void write_values(const ConstTensorView& rows, int64_t token, int64_t slot,
                  const Storage& storage) {
    const TensorView& cache = storage.cache;
    const int64_t block_size = cache.dim(2);
    const int64_t head_dim = cache.dim(3);
    const int64_t base = slot / block_size * cache.stride(0) + slot % block_size * cache.stride(2);
    for (int64_t head = 0; head < cache.dim(1); ++head) {
        const float* row = rows.as<float>() + token * rows.stride(0) + head * rows.stride(1);
        void* const to = element(cache.data, cache.dtype, base + head * cache.stride(1));
        if (storage.narrow != nullptr) {
            storage.narrow(row, to, head_dim);
        } else {
            narrow_scaled(storage, row, factor_of(storage, row, head_dim, slot, head), to,
                          head_dim);
        }
    }
}

// Parts of the keys of some tokens: [tokens][kPart], as they are stored.
constexpr int64_t kPart = 64;

// Value i of `rows` tokens becomes target[i * stride] and those behind it.
template <typename Bits, int rows>
void scatter_rows(const std::byte* part, int64_t count, int64_t stride, Bits* target) {
    for (int64_t i = 0; i < count; ++i, target += stride) {
        Bits side_by_side[rows];
        for (int row = 0; row < rows; ++row) {
            std::memcpy(side_by_side + row,
                        part + (row * kPart + i) * static_cast<int64_t>(sizeof(Bits)),
                        sizeof(Bits));
        }
        std::memcpy(target, side_by_side, sizeof(side_by_side));
    }
}

template <typename Bits>
void scatter(const std::byte* part, int64_t num_tokens, int64_t count, int64_t stride,
             void* target) {
    constexpr int together = 8;
    constexpr auto token_bytes = kPart * static_cast<int64_t>(sizeof(Bits));
    auto* to = static_cast<Bits*>(target);
    int64_t token = 0;
    for (; token + together <= num_tokens; token += together) {
        scatter_rows<Bits, together>(part + token * token_bytes, count, stride, to + token);
    }
    for (; token < num_tokens; ++token) {
        scatter_rows<Bits, 1>(part + token * token_bytes, count, stride, to + token);
    }
}

auto scatter_of(size_t bytes) {
    return bytes == 1 ? scatter<uint8_t> : bytes == 2 ? scatter<uint16_t> : scatter<uint32_t>;
}

// Keys of all heads of tokens that lie side by side in one block: each value lies a block's length
// after the one before, so those of one token alone would take a line of the cache each.
void write_keys(const ConstTensorView& rows, int64_t token, int64_t num_tokens, int64_t slot,
                const Storage& storage) {
    const TensorView& cache = storage.cache;
    const int64_t head_dim = cache.dim(2);
    const int64_t block_size = cache.dim(3);
    const bool is_scaled = storage.narrow == nullptr;
    const auto value_bytes = static_cast<int64_t>(dtype_bytes(cache.dtype));
    const auto scatter_part = scatter_of(dtype_bytes(cache.dtype));
    const int64_t base = slot / block_size * cache.stride(0) + slot % block_size;
    alignas(64) std::byte part[kMaxTokens * kPart * sizeof(float)];
    float factors[kMaxTokens];
    for (int64_t head = 0; head < cache.dim(1); ++head) {
        const auto row_of = [&](int64_t i) {
            return rows.as<float>() + (token + i) * rows.stride(0) + head * rows.stride(1);
        };
        for (int64_t i = 0; i < num_tokens && is_scaled; ++i) {
            factors[i] = factor_of(storage, row_of(i), head_dim, slot + i, head);
        }
        for (int64_t first = 0; first < head_dim; first += kPart) {
            const int64_t count = std::min(kPart, head_dim - first);
            for (int64_t i = 0; i < num_tokens; ++i) {
                std::byte* const to = part + i * kPart * value_bytes;
                if (is_scaled) {
                    narrow_scaled(storage, row_of(i) + first, factors[i], to, count);
                } else {
                    storage.narrow(row_of(i) + first, to, count);
                }
            }
            scatter_part(part, num_tokens, count, block_size,
                         element(cache.data, cache.dtype,
                                 base + head * cache.stride(1) + first * block_size));
        }
    }
}

// How many tokens from `token` on, before `end`, have slots side by side in one block.
int64_t tokens_in_block(const int64_t* slots, int64_t token, int64_t end, int64_t block_size) {
    const int64_t left = block_size - slots[token] % block_size;
    const int64_t most = std::min({left, end - token, kMaxTokens});
    int64_t count = 1;
    while (count < most && slots[token + count] == slots[token] + count) ++count;
    return count;
}

}  // namespace

void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const ops::KvScales& scales) {
    const Storage stored_keys(key_cache, scales.key, scales.keys);
    const Storage stored_values(value_cache, scales.value, scales.values);
    const bool has_values = !ops::has_keys_alone(value_cache);
    const int64_t block_size = key_cache.dim(3);
    const int64_t num_slots = key_cache.dim(0) * block_size;
    const int64_t width = (has_values ? 2 : 1) * key_cache.dim(1) * key_cache.dim(2);
    const int64_t grain = divided_up(divided_up(kValuesPerRange, width), block_size) * block_size;
    const auto* slot_of = slots.as<int64_t>();
    context.threads->parallel_for(slots.dim(0), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t token = begin; token < end;) {
            const int64_t slot = slot_of[token];
            NVLLM_CHECK(slot >= 0 && slot < num_slots, "write_kv: no slot " + std::to_string(slot));
            const int64_t count = tokens_in_block(slot_of, token, end, block_size);
            write_keys(keys, token, count, slot, stored_keys);
            for (int64_t i = 0; i < count && has_values; ++i) {
                write_values(values, token + i, slot + i, stored_values);
            }
            token += count;
        }
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

namespace {

// `count` parts of a slot in its block, each of `values` values and `step` values behind the one
// before it.
struct SlotParts {
    int64_t count, step, values;
};

// A part of slot s begins `values` values behind the same of s - 1.
void move_slot(const TensorView& cache, int64_t block_size, const SlotParts& parts, int64_t from,
               int64_t to) {
    const auto place = [&](int64_t slot, int64_t part) {
        return element(cache.data, cache.dtype,
                       slot / block_size * cache.stride(0) + slot % block_size * parts.values +
                           part * parts.step);
    };
    const size_t bytes = static_cast<size_t>(parts.values) * dtype_bytes(cache.dtype);
    for (int64_t part = 0; part < parts.count; ++part) {
        std::memcpy(place(to, part), place(from, part), bytes);
    }
}

}  // namespace

void move_slots(const Context&, const ConstTensorView& pairs, const TensorView& key_cache,
                const TensorView& value_cache, const ops::KvScales& scales) {
    const bool has_values = !ops::has_keys_alone(value_cache);
    const int64_t heads = key_cache.dim(1);
    const int64_t head_dim = key_cache.dim(2);
    const int64_t block_size = key_cache.dim(3);
    const int64_t num_slots = key_cache.dim(0) * block_size;
    const SlotParts head_scales{heads, block_size, 1};
    for (int64_t i = 0; i < pairs.dim(0); ++i) {
        const int64_t from = pairs.as<int64_t>()[2 * i];
        const int64_t to = pairs.as<int64_t>()[2 * i + 1];
        NVLLM_CHECK(from >= 0 && from < num_slots && to >= 0 && to < num_slots,
                    "move_slots: no such pair " + std::to_string(from) + ", " + std::to_string(to));
        if (from == to) continue;
        move_slot(key_cache, block_size, {heads * head_dim, block_size, 1}, from, to);
        if (key_cache.dtype == DType::i8) move_slot(scales.keys, block_size, head_scales, from, to);
        if (!has_values) continue;
        move_slot(value_cache, block_size, {heads, block_size * head_dim, head_dim}, from, to);
        if (value_cache.dtype != DType::i8) continue;
        move_slot(scales.values, block_size, head_scales, from, to);
    }
}

}  // namespace nvllm::cpu
