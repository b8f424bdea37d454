// Adapters on the CPU: rows of one adapter are computed together, a few at a time.
#include "kernels/ops/lora.h"

#include <algorithm>
#include <span>
#include <string>

#include "kernels/cpu/simd/rows.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::cpu {
namespace {

// Of one item of work: so much of a matrix is read once for so many rows.
constexpr int64_t kRowsAtOnce = 16;
constexpr int64_t kRanksAtOnce = 16;
constexpr int64_t kColumnsAtOnce = 512;

// Rows of one slot.
struct RowChunk {
    int64_t slot;
    const int32_t* rows;
    int64_t count;
};

// The rows that have adapters, by slot, in chunks.
std::span<const RowChunk> chunks_of(const Context& context, const ConstTensorView& slots,
                                    int64_t num_slots) {
    const int64_t tokens = slots.dim(0);
    auto* const order = context.scratch->take_array<int32_t>(static_cast<size_t>(tokens));
    auto* const next = context.scratch->take_array<int64_t>(static_cast<size_t>(num_slots) + 2);
    auto* const chunks = context.scratch->take_array<RowChunk>(
        static_cast<size_t>(tokens / kRowsAtOnce + std::min(tokens, num_slots)));
    if (context.is_dry_run()) return {};
    const auto* const slot_of = slots.as<int32_t>();
    std::fill_n(next, num_slots + 2, 0);
    for (int64_t row = 0; row < tokens; ++row) {
        NVLLM_CHECK(slot_of[row] >= 0 && slot_of[row] <= num_slots,
                    "adapters: no slot " + std::to_string(slot_of[row]));
        if (slot_of[row] > 0) ++next[slot_of[row] + 1];
    }
    for (int64_t slot = 1; slot <= num_slots; ++slot) next[slot + 1] += next[slot];
    size_t num_chunks = 0;
    for (int64_t slot = 1; slot <= num_slots; ++slot) {
        for (int64_t first = next[slot]; first < next[slot + 1]; first += kRowsAtOnce) {
            chunks[num_chunks++] = {slot, order + first,
                                    std::min(kRowsAtOnce, next[slot + 1] - first)};
        }
    }
    for (int64_t row = 0; row < tokens; ++row) {
        if (slot_of[row] > 0) order[next[slot_of[row]]++] = static_cast<int32_t>(row);
    }
    return {chunks, num_chunks};
}

// body(chunk, part, piece) for all of them, spread over the threads.
template <typename Body>
void for_each_piece(const Context& context, std::span<const RowChunk> chunks, int64_t parts,
                    int64_t pieces, Body body) {
    const auto items = static_cast<int64_t>(chunks.size()) * parts * pieces;
    context.threads->parallel_for(items, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t item = begin; item < end; ++item) {
            const RowChunk& chunk = chunks[static_cast<size_t>(item / (parts * pieces))];
            body(chunk, item / pieces % parts, item % pieces);
        }
    });
}

const ops::LoraPair& pair_of(const ops::LoraLinear& linear, int64_t slot, int64_t part) {
    return linear.pairs[(slot - 1) * linear.parts + part];
}

// Of the part of a row, in inner values.
int64_t inner_offset(const ops::LoraLinear& linear, int64_t row, int64_t part) {
    return (row * linear.parts + part) * linear.max_rank;
}

}  // namespace

void lora_shrink(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 const ops::LoraLinear& linear, const TensorView& inner) {
    const ScratchArena::Scope scope(*context.scratch);
    const std::span<const RowChunk> chunks = chunks_of(context, slots, linear.slots);
    if (context.is_dry_run()) return;
    const auto shrink = [&](const RowChunk& chunk, int64_t part, int64_t piece) {
        const ops::LoraPair& pair = pair_of(linear, chunk.slot, part);
        const int64_t first = piece * kRanksAtOnce;
        if (pair.out == 0 || first >= pair.rank) return;
        const float* rows[kRowsAtOnce];
        float* out[kRowsAtOnce];
        for (int64_t i = 0; i < chunk.count; ++i) {
            rows[i] = x.as<float>() + chunk.rows[i] * x.stride(0);
            out[i] = inner.as<float>() + inner_offset(linear, chunk.rows[i], part) + first;
        }
        const int64_t in = x.dim(1);
        kernels().lora_dots[float_type_index(pair.dtype)](
            {rows, chunk.count, element(pair.a, pair.dtype, first * in),
             std::min<int64_t>(kRanksAtOnce, pair.rank - first), in, pair.scale, out});
    };
    for_each_piece(context, chunks, linear.parts, divided_up(linear.max_rank, kRanksAtOnce),
                   shrink);
}

void lora_expand(const Context& context, const ConstTensorView& inner, const ConstTensorView& slots,
                 const ops::LoraLinear& linear, const TensorView& y) {
    const ScratchArena::Scope scope(*context.scratch);
    const std::span<const RowChunk> chunks = chunks_of(context, slots, linear.slots);
    if (context.is_dry_run()) return;
    const auto expand = [&](const RowChunk& chunk, int64_t part, int64_t piece) {
        const ops::LoraPair& pair = pair_of(linear, chunk.slot, part);
        const int64_t first = piece * kColumnsAtOnce;
        if (first >= pair.out) return;
        const float* factors[kRowsAtOnce];
        float* out[kRowsAtOnce];
        for (int64_t i = 0; i < chunk.count; ++i) {
            factors[i] = inner.as<float>() + inner_offset(linear, chunk.rows[i], part);
            out[i] = y.as<float>() + chunk.rows[i] * y.stride(0) + pair.first_column + first;
        }
        kernels().lora_sums[float_type_index(pair.dtype)](
            {factors, chunk.count, element(pair.b, pair.dtype, first), pair.out, pair.rank,
             pair.bias == nullptr ? nullptr : pair.bias + first,
             std::min(kColumnsAtOnce, pair.out - first), out});
    };
    for_each_piece(context, chunks, linear.parts, divided_up(y.dim(1), kColumnsAtOnce), expand);
}

void lora_expert_slots(const Context&, const ConstTensorView& slots, const ConstTensorView& experts,
                       const ConstTensorView& order, int64_t num_experts, const TensorView& out) {
    const auto count = static_cast<int32_t>(num_experts);
    for (int64_t i = 0; i < order.numel(); ++i) {
        const int32_t choice = order.as<int32_t>()[i];
        const int32_t slot = slots.as<int32_t>()[choice / experts.dim(1)];
        out.as<int32_t>()[i] =
            slot == 0 ? 0 : (slot - 1) * count + experts.as<int32_t>()[choice] + 1;
    }
}

void lora_select(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 int32_t slot, const TensorView& y) {
    const int64_t width = x.dim(1);
    parallel_rows(context, x.dim(0), width, [&](int64_t row) {
        if (slots.as<int32_t>()[row] != slot) return;
        std::copy_n(x.as<float>() + row * x.stride(0), width, y.as<float>() + row * y.stride(0));
    });
}

}  // namespace nvllm::cpu
