// Matmuls with quantized weights on the CPU: x is rounded once, then blocks of (tokens, panels)
// are shared out to threads.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dispatch/isa.h"
#include "kernels/cpu/matmul/guided_ranges.h"
#include "kernels/cpu/matmul/tile_order.h"
#include "kernels/cpu/quantized/quantize_activations.h"
#include "kernels/cpu/quantized/quantized_layout.h"
#include "kernels/cpu/quantized/quantized_tile.h"
#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

using ops::ActivationFormat;
using ops::WeightFormat;

static_assert(kNumWeightFormats == static_cast<size_t>(ops::kNumWeightFormats));

constexpr int64_t kBlockTokens = 256;  // whose x and totals stay in the second-level cache
constexpr int64_t kBlockPanels = kQuantizedColumns / kPanelColumns;
constexpr int64_t kBlocksPerThread = 4;
// In which the next weights can be prefetched.
constexpr int64_t kRowsThatTakeTime = 32;
// Bytes behind each row of x: in rows of a power of two, all would begin in a few sets of the
// cache.
constexpr int64_t kRowPadding = 64;
constexpr int64_t kMaxIntegerTerms = 100'000;  // sums of products of bytes fit into 32 bits
constexpr int64_t kTotals = kBlockTokens * kQuantizedColumns;

bool is_integer(ActivationFormat code) {
    return code == ActivationFormat::int8 || code == ActivationFormat::int4;
}

bool multiplies_integers(const ops::QuantizedLayout& layout,
                         const ops::ActivationRounding& activations) {
    const bool weights = layout.code == WeightFormat::int4 || layout.code == WeightFormat::int8;
    return weights && is_integer(activations.code) && activations.group_size == 0 &&
           !layout.has_zero_points && layout.in <= kMaxIntegerTerms;
}

// What rows of x become.
enum class Rounded : uint8_t { float32, integers, pairs };

// bfloat16 holds all values of activations in float8.
bool fits_bfloat16(const ops::ActivationRounding& activations, DType compute_type) {
    const bool is_scaled = activations.powers_of_two || activations.global_scale > 0.0f;
    return activations.code == ActivationFormat::compute_type
               ? compute_type == DType::bf16
               : activations.code == ActivationFormat::float8 && !is_scaled;
}

Rounded rounded_form(const ops::QuantizedWeight& weight, DType compute_type) {
    const ops::QuantizedLayout& layout = weight.layout;
    if (multiplies_integers(layout, weight.activations)) return Rounded::integers;
    const QuantizedVnniPairs& pairs = kernels().quantized.pairs[static_cast<size_t>(layout.code)];
    const bool has_pairs =
        pairs.multiply != nullptr && (pairs.takes_zero_points || !layout.has_zero_points);
    return has_pairs && fits_bfloat16(weight.activations, compute_type) ? Rounded::pairs
                                                                        : Rounded::float32;
}

struct Product {
    const ConstTensorView& x;
    const ops::QuantizedWeight& weight;
    const ConstTensorView& bias;
    const TensorView& y;
    bool accumulate;
    DType compute_type;
    PackedParts parts;
    Rounded form;
    int64_t tokens;
    int64_t scales_of_row = 0;
    std::byte* rounded = nullptr;    // rows of x, padded_in quantized values or values each
    float* x_scales = nullptr;       // [tokens, scales_of_row]
    int32_t* corrections = nullptr;  // [tokens, groups]
    float* x_sums = nullptr;         // [tokens, x_k_blocks]
    int64_t x_k_blocks = 0;
    int64_t block_tokens = 0;

    const ops::QuantizedLayout& layout() const { return weight.layout; }
    bool rounds() const { return weight.activations.code != ActivationFormat::compute_type; }
    size_t value_bytes() const {
        if (form == Rounded::pairs) return sizeof(BFloat16);
        if (form == Rounded::float32) return sizeof(float);
        return kernels().quantized.integer_bytes[static_cast<size_t>(layout().code)];
    }
    int64_t x_stride() const {
        return parts.padded_in + kRowPadding / static_cast<int64_t>(value_bytes());
    }
    float* scales_of(int64_t token) const { return x_scales + token * scales_of_row; }
    std::byte* row(int64_t token) const {
        return rounded + token * x_stride() * static_cast<int64_t>(value_bytes());
    }
};

// Sums of quantized values of a group, times what 4-bit weights are shifted by.
void correct_row(const Product& product, const int8_t* codes, int64_t token) {
    const ops::QuantizedLayout& layout = product.layout();
    for (int64_t group = 0; group < layout.groups(); ++group) {
        const int64_t begin = group * layout.group_size;
        const int64_t end = std::min(begin + layout.group_size, layout.in);
        product.corrections[token * layout.groups() + group] =
            -8 * kernels().quantized.sum_quantized(codes + begin, end - begin);
    }
}

void round_to_compute_type(const Product& product, const float* x, float* row) {
    if (product.compute_type == DType::f32) {
        if (x != row) std::memcpy(row, x, static_cast<size_t>(product.layout().in) * sizeof(float));
        return;
    }
    constexpr int64_t kPiece = 512;
    uint16_t narrow[kPiece];
    const size_t type = float_type_index(product.compute_type);
    for (int64_t k = 0; k < product.layout().in; k += kPiece) {
        const int64_t count = std::min(kPiece, product.layout().in - k);
        kernels().narrow[type](x + k, narrow, count);
        kernels().upcast[type](narrow, 1.0f, row + k, count);
    }
}

// A row of x in the order of the packed columns: itself, or gathered in `room`.
const float* ordered(const Product& product, int64_t token, float* room) {
    const float* x = product.x.as<float>() + token * product.x.stride(0);
    if (product.weight.columns.data == nullptr) return x;
    const auto* columns = product.weight.columns.as<int32_t>();
    for (int64_t i = 0; i < product.layout().in; ++i) room[i] = x[columns[i]];
    return room;
}

// In the whole row, of which x may have a slice.
float least_magnitude(const Product& product, int64_t token) {
    const ConstTensorView& maxima = product.weight.row_maxima;
    return maxima.data == nullptr ? 0.0f : maxima.as<float>()[token];
}

// A row of x as float32, padded with zeros.
void round_to_floats(const Product& product, int64_t token, float* row) {
    const int64_t in = product.layout().in;
    std::fill(row + in, row + product.parts.padded_in, 0.0f);
    const float* const x = ordered(product, token, row);
    if (product.rounds()) {
        round_activations(product.weight.activations, x, in, least_magnitude(product, token), row,
                          product.scales_of(token));
    } else {
        round_to_compute_type(product, x, row);
    }
}

// Rows of x from `token` on and the groups of k.
QuantizedBlock rows_at(const Product& product, int64_t token) {
    const ops::QuantizedLayout& layout = product.layout();
    QuantizedBlock block{};
    block.x = product.row(token);
    block.x_stride = product.x_stride();
    block.rows = std::min(product.block_tokens, product.tokens - token);
    if (product.rounds() && !has_row_scale(product.weight.activations)) {
        block.x_scales = product.scales_of(token);
        block.x_scale_stride = product.scales_of_row;
        block.x_group_size = product.weight.activations.group_size;
    }
    if (product.corrections != nullptr) {
        block.x_corrections = product.corrections + token * layout.groups();
    }
    if (product.x_sums != nullptr) {
        block.x_sums = product.x_sums + token * product.x_k_blocks;
        block.x_k_blocks = product.x_k_blocks;
    }
    block.in = product.parts.padded_in;
    block.group_size = layout.groups() == 1 ? product.parts.padded_in : layout.group_size;
    block.groups = layout.groups();
    return block;
}

// The same as the kernels of the weights' quantized values multiply them.
void round_to_operands(const Product& product, int64_t token, float* row) {
    round_to_floats(product, token, row);
    if (product.x_sums == nullptr) return;
    kernels().quantized.divide_for_int4(rows_at(product, token), row,
                                        product.x_sums + token * product.x_k_blocks);
}

// Floats for pairs, which are rounded to bfloat16 when they are arranged: perhaps x where it
// lies.
const float* floats_for_pairs(const Product& product, int64_t token, float* room) {
    const int64_t in = product.layout().in;
    const bool is_as_it_will_be = !product.rounds() && product.parts.padded_in == in;
    if (is_as_it_will_be) return ordered(product, token, room);
    round_to_floats(product, token, room);
    return room;
}

// The same as integers; `values` has room for a row in another order.
void round_to_quantized(const Product& product, int64_t token, float* values, int8_t* codes) {
    const int64_t in = product.layout().in;
    std::fill(codes + in, codes + product.parts.padded_in, int8_t{0});
    const float* const x = ordered(product, token, values);
    round_to_integers(product.weight.activations, x, in, least_magnitude(product, token), codes,
                      product.scales_of(token));
    if (product.layout().code == WeightFormat::int4) correct_row(product, codes, token);
}

void round_row(const Product& product, int64_t token, float* values, int8_t* codes) {
    const int64_t count = product.parts.padded_in;
    const auto code = static_cast<size_t>(product.layout().code);
    std::byte* const row = product.row(token);
    switch (product.form) {
        case Rounded::float32:
            round_to_operands(product, token, reinterpret_cast<float*>(row));
            break;
        case Rounded::integers:
            round_to_quantized(product, token, values, codes);
            kernels().quantized.arrange[code](codes, count, row);
            break;
        case Rounded::pairs:
            kernels().quantized.pairs[code].arrange(floats_for_pairs(product, token, values), count,
                                                    row);
            break;
    }
}

// Room for one row of float32 and its quantized values, for each thread; reused by the blocks
// afterwards.
size_t row_bytes(int64_t padded_in) { return static_cast<size_t>(padded_in) * (sizeof(float) + 1); }

void round_x(const Product& product, std::byte* rows, ThreadPool& threads) {
    const int64_t grain = std::max<int64_t>(1, kValuesPerRange / product.parts.padded_in);
    threads.parallel_for(product.tokens, grain, [&](int64_t begin, int64_t end, int thread) {
        std::byte* mine = rows + static_cast<size_t>(thread) * row_bytes(product.parts.padded_in);
        auto* values = reinterpret_cast<float*>(mine);
        auto* codes = reinterpret_cast<int8_t*>(values + product.parts.padded_in);
        for (int64_t token = begin; token < end; ++token) {
            round_row(product, token, values, codes);
        }
    });
}

// Panels that are multiplied side by side: `first`, and every `spacing` panels another.
struct PanelGroup {
    int64_t first;
    int64_t spacing;
    int count;

    int64_t panel(int i) const { return first + i * spacing; }
};

// Group `i` of a range. Those of a group lie far from one another, so that each is part of a long
// stream through memory: the panels between them come next.
PanelGroup group_of(const GuidedRanges::Range& panels, int64_t i) {
    const int64_t spacing = divided_up(panels.size(), kBlockPanels);
    return {panels.begin + i, spacing, static_cast<int>(divided_up(panels.size() - i, spacing))};
}

int64_t columns_of(const Product& product, int64_t panel) {
    return std::min<int64_t>(kPanelColumns, product.layout().out - panel * kPanelColumns);
}

QuantizedBlock block_at(const Product& product, int64_t token, const PanelGroup& group,
                        const PanelGroup& next, float* memory) {
    const ops::QuantizedLayout& layout = product.layout();
    const auto* packed = product.weight.packed.as<std::byte>();
    const int64_t place = group.first * layout.groups() * kPanelColumns;
    QuantizedBlock block = rows_at(product, token);
    block.codes = packed + group.first * product.parts.panel_bytes;
    block.panel_bytes = group.spacing * product.parts.panel_bytes;
    block.quantized_bytes = product.parts.panel_bytes;
    block.fetches_early = block.rows < kRowsThatTakeTime && prefetches_weights();
    if (next.count > 0 && block.rows >= kRowsThatTakeTime) {
        block.weight_prefetch = packed + next.first * product.parts.panel_bytes;
        block.next_panel_bytes = next.spacing * product.parts.panel_bytes;
        block.next_panels = next.count;
    }
    block.panel_groups = group.spacing * layout.groups();
    block.panels = group.count;
    block.scale_type = layout.scale_type;
    block.scales = element(packed + product.parts.scales, layout.scale_type, place);
    if (layout.has_zero_points) {
        block.zero_points =
            reinterpret_cast<const int8_t*>(packed + product.parts.zero_points) + place;
    }
    block.corrections =
        reinterpret_cast<const int32_t*>(packed + product.parts.corrections) + place;
    block.totals = memory;
    block.dequantized = memory + kTotals;
    block.factor = product.weight.factor;
    if (product.rounds() && has_row_scale(product.weight.activations)) {
        block.row_scales = product.x_scales + token;
    }
    block.accumulates = product.accumulate;
    block.y_stride = product.y.stride(0);
    block.y = product.y.as<float>() + token * block.y_stride + group.first * kPanelColumns;
    block.y_panel_stride = group.spacing * kPanelColumns;
    block.last_columns = columns_of(product, group.panel(group.count - 1));
    return block;
}

// float32 [panels, 16], with zeros where there is none.
void upcast_bias(const Product& product, const PanelGroup& group, float* bias) {
    std::fill(bias, bias + kQuantizedColumns, 0.0f);
    if (product.bias.data == nullptr) return;
    const auto upcast = kernels().upcast[float_type_index(product.bias.dtype)];
    for (int i = 0; i < group.count; ++i) {
        const int64_t panel = group.panel(i);
        upcast(element(product.bias.data, product.bias.dtype, panel * kPanelColumns), 1.0f,
               bias + i * kPanelColumns, columns_of(product, panel));
    }
}

void multiply_block(const Product& product, int64_t token, const PanelGroup& group,
                    const PanelGroup& next, float* memory) {
    QuantizedBlock block = block_at(product, token, group, next, memory);
    float bias[kQuantizedColumns];
    upcast_bias(product, group, bias);
    block.bias = bias;
    const auto code = static_cast<size_t>(product.layout().code);
    const QuantizedKernels& kernel = kernels().quantized;
    switch (product.form) {
        case Rounded::float32:
            kernel.multiply[code](block);
            break;
        case Rounded::integers:
            kernel.multiply_integers[code](block);
            break;
        case Rounded::pairs:
            kernel.pairs[code].multiply(block);
            break;
    }
}

// Neighbouring panels for some tokens; `next`: those that the thread will probably take next.
void multiply_panels(const Product& product, int64_t token, const GuidedRanges::Range& panels,
                     const GuidedRanges::Range& next, float* memory) {
    if (panels.size() == 0) return;
    const int64_t groups = group_of(panels, 0).spacing;
    for (int64_t i = 0; i < groups; ++i) {
        PanelGroup upcoming{};
        if (i + 1 < groups) {
            upcoming = group_of(panels, i + 1);
        } else if (next.size() > 0) {
            upcoming = group_of(next, 0);
        }
        multiply_block(product, token, group_of(panels, i), upcoming, memory);
    }
}

// Many tokens want few panels at a time, which then stay in the cache; few tokens want long ranges.
GuidedRanges ranges_of_panels(const Product& product, int num_threads) {
    const int64_t panels = product.parts.panels;
    const int64_t fair_share = divided_up(panels, kBlocksPerThread * num_threads);
    const int64_t least = std::min<int64_t>(fair_share, kBlockPanels);
    const bool reuses = product.tokens > kBlockTokens;
    return {panels, least, reuses ? least : divided_up(panels, least) * least, num_threads};
}

void take_scratch(Product& product, ScratchArena& scratch) {
    const auto tokens = static_cast<size_t>(product.tokens);
    product.rounded = static_cast<std::byte*>(
        scratch.take(tokens * static_cast<size_t>(product.x_stride()) * product.value_bytes()));
    product.scales_of_row = num_activation_scales(product.weight.activations, product.layout().in);
    product.x_scales =
        scratch.take_array<float>(tokens * static_cast<size_t>(product.scales_of_row));
    if (product.form == Rounded::integers && product.layout().code == WeightFormat::int4) {
        product.corrections =
            scratch.take_array<int32_t>(tokens * static_cast<size_t>(product.layout().groups()));
    }
    if (product.form == Rounded::float32 && product.layout().code == WeightFormat::int4 &&
        kernels().quantized.divide_for_int4 != nullptr) {
        for_each_k_block(rows_at(product, 0), kQuantizedBlockK,
                         [&](const QuantizedKBlock&) { ++product.x_k_blocks; });
        product.x_sums =
            scratch.take_array<float>(tokens * static_cast<size_t>(product.x_k_blocks));
    }
}

size_t thread_bytes(int64_t padded_in) {
    const auto block_values = static_cast<size_t>(kTotals + dequantized_values(padded_in));
    return std::max(block_values * sizeof(float), (row_bytes(padded_in) + 63) / 64 * 64);
}

}  // namespace

bool can_multiply_quantized(const ops::QuantizedLayout& layout,
                            const ops::ActivationRounding& activations, const ComputeTarget&) {
    const bool sparse = ops::is_sparse(layout.code);
    const int64_t depth = sparse ? kSparseDepth : 8;
    const auto is_whole = [&](int64_t group_size) {
        return group_size % depth == 0 || group_size >= layout.in;
    };
    return is_whole(layout.group_size) && is_whole(activations.group_size) &&
           !(sparse && layout.in % 4 != 0);
}

void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, ops::MatmulOutput output, const TensorView& y) {
    if (y.numel() == 0) return;
    Product product{x,
                    weight,
                    bias,
                    y,
                    output == ops::MatmulOutput::accumulate,
                    compute_type,
                    PackedParts(weight.layout),
                    rounded_form(weight, compute_type),
                    x.dim(0)};
    const int num_threads = context.threads->num_threads();
    product.block_tokens = divided_up(
        product.tokens,
        TileOrder::row_blocks_for(divided_up(product.tokens, kBlockTokens), num_threads));
    const ScratchArena::Scope scope(*context.scratch);
    take_scratch(product, *context.scratch);
    const size_t bytes = thread_bytes(product.parts.padded_in);
    auto* of_threads =
        static_cast<std::byte*>(context.scratch->take(bytes * static_cast<size_t>(num_threads)));
    if (context.is_dry_run()) return;
    round_x(product, of_threads, *context.threads);

    const int64_t token_blocks = divided_up(product.tokens, product.block_tokens);
    const GuidedRanges panels =
        ranges_of_panels(product, TileOrder::threads_of_rows(token_blocks, num_threads));
    const TileOrder order(token_blocks, panels.count(), num_threads);
    context.threads->parallel_for(order.count(), 1, [&](int64_t i, int64_t, int thread) {
        const TileOrder::Block block = order.at(i);
        multiply_panels(product, block.rows * product.block_tokens, panels.at(block.columns),
                        panels.after(block.columns),
                        reinterpret_cast<float*>(of_threads + bytes * static_cast<size_t>(thread)));
    });
}

}  // namespace nvllm::cpu
