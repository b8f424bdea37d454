// Cutting a tensor along one of its axes.
#include "lib/model/weights/shard.h"

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Neighbours along an axis.
struct Run {
    int64_t first = 0;
    int64_t count = 0;
};

// What a rank has of an axis of `size`. The pieces may count other units than the axis: words that
// hold several outputs each.
std::vector<Run> runs_of(int64_t size, const TensorSlice& slice) {
    const int64_t whole[] = {size};
    const std::span<const int64_t> pieces = slice.pieces.empty() ? whole : slice.pieces;
    const int64_t units = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
    std::vector<Run> runs;
    int64_t begin = 0;
    for (const int64_t piece : pieces) {
        const int64_t length = piece * size / units;
        const int64_t count = length / slice.shard.ranks;
        NVLLM_CHECK(count * slice.shard.ranks == length && length * units == piece * size,
                    "pieces that the ranks divide");
        runs.push_back({begin + slice.shard.rank * count, count});
        begin += length;
    }
    return runs;
}

}  // namespace

bool TensorSlice::fits(const ConstTensorView& stored, std::initializer_list<int64_t> shape) const {
    if (static_cast<size_t>(stored.rank) != shape.size()) return false;
    bool is_whole = true;
    bool is_cut = true;
    int dimension = 0;
    for (const int64_t size : shape) {
        const int64_t found = stored.dim(dimension);
        is_whole = is_whole && found == size;
        is_cut = is_cut && found == (dimension == axis ? size * shard.ranks : size);
        ++dimension;
    }
    return is_whole || is_cut;
}

ShardGranularity ShardGranularity::with(const ShardGranularity& other) const {
    return {std::lcm(out, other.out), std::lcm(in, other.in)};
}

Tensor cut(const Tensor& stored, const TensorSlice& slice) {
    if (slice.shard.is_whole()) return stored;
    const ConstTensorView& view = stored.view();
    const std::vector<Run> runs = runs_of(view.dim(slice.axis), slice);
    if (slice.axis == 0 && runs.size() == 1) {
        return Tensor::borrow(view.rows(runs.front().first, runs.front().count),
                              std::make_shared<const Tensor>(stored));
    }
    NVLLM_CHECK(view.rank <= 2, "matrices and vectors are cut");
    const int64_t kept = view.dim(slice.axis) / slice.shard.ranks;
    Tensor result = view.rank == 1    ? Tensor::allocate(view.dtype, {kept})
                    : slice.axis == 0 ? Tensor::allocate(view.dtype, {kept, view.dim(1)})
                                      : Tensor::allocate(view.dtype, {view.dim(0), kept});
    // Of one index of the axis, and how often the axis repeats.
    const int64_t inner = slice.axis == 0 && view.rank == 2 ? view.dim(1) : 1;
    const int64_t outer = slice.axis == 0 ? 1 : view.dim(0);
    const size_t bytes = static_cast<size_t>(inner) * dtype_bytes(view.dtype);
    const auto* row = view.as<std::byte>();
    auto* to = result.mutable_view().as<std::byte>();
    for (int64_t i = 0; i < outer; ++i) {
        for (const Run& run : runs) {
            const size_t length = static_cast<size_t>(run.count) * bytes;
            std::memcpy(to, row + static_cast<size_t>(run.first) * bytes, length);
            to += length;
        }
        row += static_cast<size_t>(view.dim(slice.axis)) * bytes;
    }
    return result;
}

}  // namespace nvllm
