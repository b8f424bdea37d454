// The paged key-value memory of one worker, and its slots of states, addressed by block numbers
// only.
//
// Which block belongs to whom is the bookkeeping half's affair; here a block is a place. The keys
// and values of all layers of a cache group lie together block by block: memory is reserved at
// construction and committed by the operating system when a block is first written, in pages that
// may be as large as a block of all layers, and a copy of a block is one copy. Scales of int8 lie
// in the block that they belong to and go with it. A slot of states is a block: the float32 states
// of all layers of the group.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

// A token's keys and values go to another place, in all layers of a group.
struct SlotMove {
    int32_t group = 0;
    int64_t from = 0;  // block * block_size + offset
    int64_t to = 0;
};

class KvStorage {
  public:
    // num_blocks[g] blocks in `dtype`, as ops::write_kv() writes them, for each layer of each group
    // g; slots where it is of kind state. Throws does_not_fit when the memory cannot be reserved.
    // `num_host_blocks`: the same for the blocks of sequences that are swapped out; may be empty.
    KvStorage(const std::vector<CacheLayout>& groups, std::span<const int32_t> num_blocks,
              std::span<const int32_t> num_host_blocks, int32_t block_size, DType dtype,
              const ComputeDevice& device = {});

    // Indexed by layer.
    std::span<const KvLayer> layers() const { return layers_; }

    // Carries out a plan's copies, in order; on a device in the order of the context's stream.
    // REQUIRES: block numbers of this storage.
    void copy_blocks(const Context& context, std::span<const BlockMove> copies);
    // Copies slots of a group, in order. On the CPU alone. REQUIRES: slots of this storage.
    void move_slots(const Context& context, std::span<const SlotMove> moves);
    // Between device and host; the bytes copied. REQUIRES: block numbers of this storage.
    uint64_t swap_out(const Context& context, std::span<const SwapMove> moves);
    uint64_t swap_in(const Context& context, std::span<const SwapMove> moves);

    // The memory of a host block, as the device's blocks lie. REQUIRES: it is of this storage.
    std::byte* host_block(int32_t group, HostBlockId block) const;

    // Gives the memory of blocks from num_blocks[g] on back to the system; their content is lost.
    // It is taken again when they are written; a device keeps it. REQUIRES: at most as many as
    // were reserved.
    void use_first(std::span<const int32_t> num_blocks);

    size_t bytes() const;

  private:
    // By group: [blocks, values of a block in all layers].
    using Pools = std::vector<Tensor>;

    std::array<int64_t, 3> keys_of(const CacheLayout& group, int32_t block_size) const;
    std::vector<KvLayer> layers_of(const std::vector<CacheLayout>& groups,
                                   int32_t block_size) const;

    ComputeDevice device_;
    Pools pools_;
    Pools host_pools_;
    std::vector<KvLayer> layers_;
};

}  // namespace nvllm
