// The paged key-value memory of one worker: tensors for every layer, addressed by block numbers
// only.
//
// Which block belongs to whom is the bookkeeping half's affair; here a block is a place. Memory is
// reserved at construction and committed by the operating system when a block is first written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

class KvStorage {
  public:
    // One pair of tensors [num_blocks[g], kv_heads, block_size, head_dim] in `dtype` for each layer
    // of each group g. Throws does_not_fit when the memory cannot be reserved.
    KvStorage(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
              int32_t block_size, DType dtype);

    // Indexed by layer.
    std::span<const KvLayer> layers() const { return layers_; }

    // Carries out a plan's copies, in order. REQUIRES: block numbers of this storage.
    void copy_blocks(const Context& context, std::span<const BlockCopy> copies);

    size_t bytes() const;

  private:
    std::vector<Tensor> tensors_;
    std::vector<KvLayer> layers_;
};

}  // namespace nvllm
