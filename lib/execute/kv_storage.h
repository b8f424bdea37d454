// The paged key-value memory of one worker: tensors for every layer, addressed by block numbers
// only.
//
// Which block belongs to whom is the bookkeeping half's affair; here a block is a place. Memory is
// reserved at construction and committed by the operating system when a block is first written.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

class KvStorage {
  public:
    // One pair of tensors of num_blocks[g] blocks in `dtype`, as ops::write_kv() writes them, for
    // each layer of each group g. Throws does_not_fit when the memory cannot be reserved.
    // `num_host_blocks`: the same for the blocks of sequences that are swapped out; may be empty.
    KvStorage(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
              std::span<const int32_t> num_host_blocks, int32_t block_size, DType dtype);

    // Indexed by layer.
    std::span<const KvLayer> layers() const { return layers_; }

    // Carries out a plan's copies, in order. REQUIRES: block numbers of this storage.
    void copy_blocks(const Context& context, std::span<const BlockMove> copies);
    // Between device and host; the bytes copied. REQUIRES: block numbers of this storage.
    uint64_t swap_out(const Context& context, std::span<const SwapMove> moves);
    uint64_t swap_in(const Context& context, std::span<const SwapMove> moves);

    // Gives the memory of blocks from num_blocks[g] on back to the system; their content is lost.
    // It is taken again when they are written. REQUIRES: at most as many as were reserved.
    void use_first(std::span<const int32_t> num_blocks);

    size_t bytes() const;

  private:
    std::vector<KvLayer> reserve(const std::vector<KvGroup>& groups,
                                 std::span<const int32_t> num_blocks, int32_t block_size,
                                 DType dtype);
    TensorView allocate(DType dtype, std::initializer_list<int64_t> shape);

    std::vector<Tensor> tensors_;
    std::vector<KvLayer> layers_;
    std::vector<KvLayer> host_layers_;
};

}  // namespace nvllm
