// How a cache block lies in a file of the disk tier: the same whatever the number of ranks.
//
//   values    [layers, keys and values, heads, values of a head in a block]
//   scales    of int8: [layers, keys and values, heads, block_size] float32
//   digests   of each piece of the two, uint64, in their order
//
// A piece is what belongs to one head of one layer; of a latent group to a layer; of a group of
// states the state of a layer. A rank has some heads of some layers, and writes and reads those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/types.h"
#include "lib/model/model.h"

namespace nvllm {

// Adjacent pieces of a block, both in memory and in the file.
struct BlockRun {
    size_t memory = 0;        // offset in the block
    uint64_t file = 0;        // offset from where the block begins in the file
    size_t piece_bytes = 0;   // of each
    int64_t first_piece = 0;  // which digest is its first one's
    int64_t num_pieces = 0;
};

struct BlockFileLayout {
    std::vector<BlockRun> runs;  // that this rank has
    uint64_t value_bytes = 0;    // where the digests begin
    int64_t num_pieces = 0;      // of all ranks

    uint64_t bytes() const { return value_bytes + num_pieces * sizeof(uint64_t); }
};

// What a rank has of a group, and what all have.
struct BlockShare {
    int32_t first_layer = 0;
    int32_t num_layers = 0;
    int32_t first_head = 0;
    int32_t num_heads = 0;
};

// Of a model on one rank.
BlockShare whole_share(const CacheLayout& group);

// Blocks of `group`, which are the rank's part, as KvStorage has them.
BlockFileLayout block_file_layout(const CacheLayout& group, int32_t block_size, DType dtype,
                                  const BlockShare& share);

}  // namespace nvllm
