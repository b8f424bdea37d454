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
    const ShardPiece whole[] = {size};
    const std::span<const ShardPiece> pieces = slice.pieces.empty() ? whole : slice.pieces;
    const int64_t units = share_of(pieces, {});
    std::vector<Run> runs;
    int64_t begin = 0;
    for (const ShardPiece& piece : pieces) {
        const Shard shard = piece.shard_of(slice.shard);
        const int64_t length = piece.size * size / units;
        const int64_t count = length / shard.ranks;
        NVLLM_CHECK(count * shard.ranks == length && length * units == piece.size * size,
                    "pieces that the ranks divide");
        runs.push_back({begin + shard.rank * count, count});
        begin += length;
    }
    return runs;
}

}  // namespace

int64_t share_of(std::span<const ShardPiece> pieces, const Shard& shard) {
    int64_t share = 0;
    for (const ShardPiece& piece : pieces) share += piece.share_of(shard);
    return share;
}

Shard ShardPiece::shard_of(const Shard& shard) const {
    if (!repeats || units >= shard.ranks) return shard;
    const auto slices = static_cast<int32_t>(units);
    return {shard.rank / (shard.ranks / slices), slices};
}

bool ShardPiece::can_be_cut(int32_t ranks, int64_t granularity) const {
    const bool is_shared = repeats && units < ranks;
    if (is_shared) return ranks % units == 0 && size % (units * granularity) == 0;
    return units % ranks == 0 && size % (ranks * granularity) == 0;
}

int64_t TensorSlice::whole_size(int64_t size) const {
    if (pieces.empty()) return size * shard.ranks;
    return size * share_of(pieces, {}) / share_of(pieces, shard);
}

bool TensorSlice::fits(const ConstTensorView& stored, std::initializer_list<int64_t> shape) const {
    if (static_cast<size_t>(stored.rank) != shape.size()) return false;
    bool is_whole = true;
    bool is_cut = true;
    int dimension = 0;
    for (const int64_t size : shape) {
        const int64_t found = stored.dim(dimension);
        is_whole = is_whole && found == size;
        is_cut = is_cut && found == (dimension == axis ? whole_size(size) : size);
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
    NVLLM_CHECK(slice.axis == 0 || view.rank == 2, "an axis that can be cut");
    int64_t kept = 0;
    for (const Run& run : runs) kept += run.count;
    ViewLayout layout = view;
    layout.shape[static_cast<size_t>(slice.axis)] = kept;
    Tensor result = Tensor::allocate(layout, ComputeDevice());
    // Of one index of the axis, and how often the axis repeats.
    const int64_t inner = slice.axis == 0 ? view.numel() / view.dim(0) : 1;
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
