// How the matrix of a linear is cut into equal slices, one for each rank.
#pragma once

#include <cstdint>
#include <span>

#include "lib/tensor/tensor.h"

namespace nvllm {

// Which side of a linear the ranks share out: its outputs (column parallel; each rank has all
// inputs), its inputs (row parallel; the ranks' results are summed), or none: each rank has all.
enum class ShardAxis : uint8_t { none, output, input };

// One of `ranks` equal slices.
struct Shard {
    int32_t rank = 0;
    int32_t ranks = 1;

    bool is_whole() const { return ranks == 1; }
    bool operator==(const Shard&) const = default;
};

// Outputs of a linear that are cut by themselves.
struct ShardPiece {
    // NOLINTNEXTLINE(google-explicit-constructor): lists of sizes are lists of pieces
    ShardPiece(int64_t outputs, int64_t equal_units = 0, bool may_repeat = false)
        : size(outputs), units(equal_units), repeats(may_repeat) {}

    int64_t size;
    int64_t units;  // heads or other units that are never parted; 0: none
    // Where ranks are more than units, several ranks have the same one.
    bool repeats;

    // Which of how many slices a rank has of it. REQUIRES: can_be_cut().
    Shard shard_of(const Shard& shard) const;
    bool can_be_cut(int32_t ranks, int64_t granularity) const;
    int64_t share_of(const Shard& shard) const { return size / shard_of(shard).ranks; }
};

// What a rank has of them; of a whole shard, their size.
int64_t share_of(std::span<const ShardPiece> pieces, const Shard& shard);

// The part of a stored tensor that a rank has: its slice of one axis, or of each piece of it.
struct TensorSlice {
    Shard shard;
    int axis = 0;
    // What lies side by side along the axis, in any unit; empty: it is one piece.
    std::span<const ShardPiece> pieces = {};

    // Whether a rank's tensor of this shape is stored like that: whole, or in slices.
    bool fits(const ConstTensorView& stored, std::initializer_list<int64_t> shape) const;
    // The size of the axis that a slice of this size is of.
    int64_t whole_size(int64_t size) const;
};

// Outputs and inputs that a storage format cannot part: they share a word or a scale.
struct ShardGranularity {
    int64_t out = 1;
    int64_t in = 1;

    // What neither of both can part.
    ShardGranularity with(const ShardGranularity& other) const;
};

// The slice, in host memory: rows lie where they are stored, columns are copied. Only the slice's
// bytes are read. REQUIRES: an axis of pieces that can be cut, the first one or that of a matrix.
Tensor cut(const Tensor& stored, const TensorSlice& slice);

}  // namespace nvllm
