// Matmuls on the CPU: x is packed once, then blocks of (tokens, columns) are shared out to
// threads.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>

#include "kernels/cpu/dispatch/isa.h"
#include "kernels/cpu/matmul/guided_ranges.h"
#include "kernels/cpu/matmul/tile_order.h"
#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

// Of one block that is used in place: the second panel finds its weights in the second-level cache.
constexpr int64_t kBlockBytes = 256 << 10;
// Of one that is read as streams, each of which takes a while to begin.
constexpr int64_t kStreamBlockBytes = 1 << 20;
constexpr int64_t kMinStreamBlockBytes = 64 << 10;
constexpr int64_t kMinGroups = 4;  // or x passes through the first-level cache too often
// Of a block towards the end of a product; all of x passes through the caches for each.
constexpr int64_t kMinPackedColumns = 32;
constexpr int64_t kBlocksPerThread =
    8;  // so that threads end together though their blocks take turns
constexpr size_t kPackedWeightBytes = sizeof(float) * kMaxMatmulColumns * kBlockK;

const MatmulKernels& kernel_for(int64_t tokens, DType compute_type, DType weight_type) {
    const MatmulKernels& few =
        kernels().matmul[float_type_index(compute_type)][float_type_index(weight_type)];
    const bool are_few = few.for_more_rows == nullptr || tokens <= few.max_in_place_tokens;
    return are_few ? few : *few.for_more_rows;
}

int64_t rounded_up(int64_t value, int64_t to) { return divided_up(value, to) * to; }

// With room for a full last panel.
size_t packed_x_bytes(const MatmulKernels& kernel, int64_t tokens, int64_t in) {
    const int64_t rows = rounded_up(tokens, kernel.max_panel_rows);
    return static_cast<size_t>(rows * rounded_up(in, kernel.step)) * kernel.packed_bytes;
}

// Columns of several weights are counted as those of one.
struct Product {
    const ConstTensorView& x;
    std::span<const ops::MatmulWeight> weights;
    const TensorView& y;
    bool accumulate;
    const MatmulKernels& kernel;
    int64_t tokens;
    int64_t in;
    int64_t out;
    // Sizes of a block: every one but the last of its axis is full, but for columns that are read
    // as streams or packed, whose blocks get shorter down to the least.
    int64_t block_tokens = 0;
    int64_t block_columns = 0;
    int64_t min_columns = 0;
    std::byte* packed = nullptr;
    std::byte* packed_weights = nullptr;  // of one block for each thread, or null

    bool packs_weights() const { return tokens > kernel.max_in_place_tokens; }
    int64_t padded_in() const { return rounded_up(in, kernel.step); }
    int64_t num_token_blocks() const { return divided_up(tokens, block_tokens); }
    int64_t num_column_blocks() const { return divided_up(out, block_columns); }
    DType weight_type() const { return weights.front().weight.dtype; }
    std::byte* packed_row(int64_t token) const {
        return packed + token * padded_in() * static_cast<int64_t>(kernel.packed_bytes);
    }
};

// At most as many tokens as stay in a cache, and fewer where columns alone make too few blocks;
// blocks of like sizes, since what is left over would multiply all weights for little, and where
// each thread can have some, as many for each.
int64_t tokens_of_block(const Product& product, int64_t wanted_blocks, int num_threads) {
    const int64_t wanted_parts = std::max<int64_t>(1, wanted_blocks / product.num_column_blocks());
    const int64_t in_cache_tokens =
        product.kernel.max_x_bytes /
        (product.padded_in() * static_cast<int64_t>(product.kernel.packed_bytes));
    const int64_t most = std::max(std::min(in_cache_tokens, product.kernel.max_block_tokens),
                                  product.kernel.min_block_tokens);
    const int64_t parts = TileOrder::row_blocks_for(
        std::max(wanted_parts, divided_up(product.tokens, std::min(most, product.tokens))),
        num_threads);
    return std::max(divided_up(product.tokens, parts), product.kernel.min_block_tokens);
}

void choose_blocks(Product& product, int num_threads) {
    const int64_t group = product.kernel.columns_at_once;
    const int64_t row_bytes = product.in * static_cast<int64_t>(dtype_bytes(product.weight_type()));
    const bool are_streams = product.tokens <= product.kernel.max_stream_rows;
    const int64_t most = are_streams ? kMaxStreamColumns : kMaxMatmulColumns;
    const int64_t block_bytes = are_streams ? kStreamBlockBytes : kBlockBytes;
    const int64_t wanted =
        product.packs_weights() ? most : std::max(block_bytes / row_bytes, kMinGroups * group);
    const int64_t fair_share = divided_up(product.out, kBlocksPerThread * num_threads);
    const int64_t fair_groups = divided_up(fair_share, group);
    const int64_t wanted_groups =
        std::max<int64_t>(std::min(divided_up(wanted, group), most / group), 1);
    int64_t min_groups = std::min(wanted_groups, fair_groups);
    int64_t groups = min_groups;
    // Long streams first and short ones at the end; others are blocks of one size.
    if (are_streams) {
        min_groups = std::clamp<int64_t>(kMinStreamBlockBytes / (row_bytes * group), 1, min_groups);
        groups = wanted_groups / min_groups * min_groups;
    } else if (product.packs_weights()) {
        min_groups = std::clamp<int64_t>(kMinPackedColumns / group, 1, min_groups);
        groups = groups / min_groups * min_groups;
    }
    product.min_columns = min_groups * group;
    product.block_columns = groups * group;
    product.block_tokens = rounded_up(
        are_streams ? product.tokens
                    : tokens_of_block(product, kBlocksPerThread * num_threads, num_threads),
        product.kernel.max_panel_rows);
}

// Panels of each block of tokens, in parallel.
void pack_x(const Product& product, ThreadPool& threads) {
    const int64_t rows = product.kernel.max_panel_rows;
    const int64_t grain = std::max<int64_t>(1, kValuesPerRange / (product.in * rows));
    const int64_t block_panels = product.block_tokens / rows;
    threads.parallel_for(
        divided_up(product.tokens, rows), grain, [&](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i) {
                const int64_t block_begin = i / block_panels * product.block_tokens;
                const int64_t tokens = std::min(product.block_tokens, product.tokens - block_begin);
                const int64_t panel = i % block_panels;
                const int64_t begin = block_begin + product.kernel.panel_begin(tokens, panel);
                const int64_t end = block_begin + product.kernel.panel_begin(tokens, panel + 1);
                product.kernel.pack(product.x.as<float>() + begin * product.x.stride(0),
                                    product.x.stride(0), end - begin, product.in,
                                    product.packed_row(begin));
            }
        });
}

// Neighbouring columns that one weight has.
struct Columns {
    const ops::MatmulWeight* by = nullptr;
    int64_t of_weight = 0;  // the first
    int64_t of_y = 0;
    int64_t count = 0;

    const void* rows() const {
        const ConstTensorView& weight = by->weight;
        return element(weight.data, weight.dtype, of_weight * weight.dim(1));
    }
    void upcast_bias(float* out) const {
        kernels().upcast[float_type_index(by->bias.dtype)](
            element(by->bias.data, by->bias.dtype, of_weight), 1.0f, out, count);
    }
};

// The first columns of a range, as many as lie in one weight; none of an empty range.
Columns first_columns(const Product& product, const GuidedRanges::Range& range) {
    int64_t first = range.begin;
    for (const ops::MatmulWeight& by : product.weights) {
        const int64_t out = by.weight.dim(0);
        if (first < out) return {&by, first, range.begin, std::min(out - first, range.size())};
        first -= out;
    }
    return {};
}

void multiply_block(const Product& product, int64_t token, const Columns& columns,
                    const Columns& next, int thread) {
    MatmulBlock block;
    block.x = product.packed_row(token);
    block.tokens = std::min(product.block_tokens, product.tokens - token);
    block.weight = columns.rows();
    block.next_weight = next.count > 0 ? next.rows() : nullptr;
    block.next_columns = next.count;
    block.bytes_ahead = bytes_fetched_ahead();
    block.bytes_early = bytes_fetched_early();
    block.packed_weight =
        product.packed_weights == nullptr
            ? nullptr
            : product.packed_weights + static_cast<size_t>(thread) * kPackedWeightBytes;
    block.columns = columns.count;
    block.in = product.in;
    block.y = product.y.as<float>() + token * product.y.stride(0) + columns.of_y;
    block.y_stride = product.y.stride(0);
    block.accumulate = product.accumulate;
    float bias[kMaxStreamColumns];
    block.bias = nullptr;
    if (columns.by->bias.data != nullptr) {
        columns.upcast_bias(bias);
        block.bias = bias;
    }
    product.kernel.multiply(block);
}

// `next`: the range that the thread will probably take next.
void multiply_range(const Product& product, int64_t token, GuidedRanges::Range range,
                    const GuidedRanges::Range& next, int thread) {
    while (range.size() > 0) {
        const Columns columns = first_columns(product, range);
        range.begin += columns.count;
        multiply_block(product, token, columns,
                       first_columns(product, range.size() > 0 ? range : next), thread);
    }
}

}  // namespace

void fused_matmul(const Context& context, const ConstTensorView& x,
                  std::span<const ops::MatmulWeight> weights, DType compute_type,
                  ops::MatmulOutput output, const TensorView& y) {
    if (y.numel() == 0) return;
    const DType weight_type = weights.front().weight.dtype;
    const MatmulKernels& kernel = kernel_for(x.dim(0), compute_type, weight_type);
    Product product{x,      weights,  y,        output == ops::MatmulOutput::accumulate,
                    kernel, x.dim(0), x.dim(1), y.dim(1)};
    const int num_threads = context.threads->num_threads();
    choose_blocks(product, num_threads);

    const ScratchArena::Scope scope(*context.scratch);
    product.packed = static_cast<std::byte*>(
        context.scratch->take(packed_x_bytes(kernel, product.tokens, product.in)));
    if (product.packs_weights()) {
        product.packed_weights = static_cast<std::byte*>(
            context.scratch->take(static_cast<size_t>(num_threads) * kPackedWeightBytes));
    }
    if (context.is_dry_run()) return;
    pack_x(product, *context.threads);

    const int64_t token_blocks = product.num_token_blocks();
    const GuidedRanges columns(product.out, product.min_columns, product.block_columns,
                               TileOrder::threads_of_rows(token_blocks, num_threads));
    const TileOrder order(token_blocks, columns.count(), num_threads);
    context.threads->parallel_for(order.count(), 1, [&](int64_t i, int64_t, int thread) {
        const TileOrder::Block block = order.at(i);
        multiply_range(product, block.rows * product.block_tokens, columns.at(block.columns),
                       columns.after(block.columns), thread);
    });
}

}  // namespace nvllm::cpu
