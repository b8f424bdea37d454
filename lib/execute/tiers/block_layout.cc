// Offsets of pieces.
#include "lib/execute/tiers/block_layout.h"

#include "kernels/error.h"

namespace nvllm {
namespace {

// Adds one kind of pieces: [layers, parts, heads], as many bytes each.
class PieceList {
  public:
    explicit PieceList(const BlockShare& share, BlockFileLayout& layout)
        : share_(share), layout_(layout) {}

    void add(int64_t num_layers, int64_t num_parts, int64_t num_heads, size_t piece_bytes) {
        for (int64_t part = 0; part < num_layers * num_parts; ++part) {
            const int64_t first =
                (share_.first_layer * num_parts + part) * share_.num_heads + share_.first_head;
            append({.memory = memory_,
                    .file = layout_.value_bytes + static_cast<uint64_t>(first) * piece_bytes,
                    .piece_bytes = piece_bytes,
                    .first_piece = layout_.num_pieces + first,
                    .num_pieces = num_heads});
            memory_ += static_cast<size_t>(num_heads) * piece_bytes;
        }
        const int64_t all = int64_t{share_.num_layers} * num_parts * share_.num_heads;
        layout_.value_bytes += static_cast<uint64_t>(all) * piece_bytes;
        layout_.num_pieces += all;
    }

  private:
    void append(const BlockRun& run) {
        if (!layout_.runs.empty()) {
            BlockRun& last = layout_.runs.back();
            const auto bytes = static_cast<size_t>(last.num_pieces) * last.piece_bytes;
            if (last.piece_bytes == run.piece_bytes && last.file + bytes == run.file &&
                last.memory + bytes == run.memory &&
                last.first_piece + last.num_pieces == run.first_piece) {
                last.num_pieces += run.num_pieces;
                return;
            }
        }
        layout_.runs.push_back(run);
    }

    const BlockShare& share_;
    BlockFileLayout& layout_;
    size_t memory_ = 0;
};

}  // namespace

BlockShare whole_share(const CacheLayout& group) {
    const int32_t heads = group.is_state() ? 1 : group.kv_heads;
    return {0, static_cast<int32_t>(group.layers.size()), 0, heads};
}

BlockFileLayout block_file_layout(const CacheLayout& group, int32_t block_size, DType dtype,
                                  const BlockShare& share) {
    const int64_t num_layers = std::ssize(group.layers);
    const int64_t num_heads = group.is_state() ? 1 : group.kv_heads;
    NVLLM_CHECK(share.first_layer + num_layers <= share.num_layers &&
                    share.first_head + num_heads <= share.num_heads,
                "a rank has a part of what all have");
    BlockFileLayout layout;
    PieceList pieces(share, layout);
    if (group.is_state()) {
        pieces.add(num_layers, 1, num_heads, static_cast<size_t>(group.state_bytes));
        return layout;
    }
    const int64_t num_parts = group.is_latent() ? 1 : 2;
    const auto block = static_cast<size_t>(block_size);
    pieces.add(num_layers, num_parts, num_heads,
               block * static_cast<size_t>(group.head_dim) * dtype_bytes(dtype));
    if (dtype == DType::i8) pieces.add(num_layers, num_parts, num_heads, block * sizeof(float));
    return layout;
}

}  // namespace nvllm
