// Reserves and copies key-value blocks.
#include "lib/execute/kv_storage.h"

#include <array>

#include "kernels/ops/kv_cache.h"

namespace nvllm {
namespace {

size_t num_layers(const std::vector<KvGroup>& groups) {
    size_t count = 0;
    for (const KvGroup& group : groups) count += group.layers.size();
    return count;
}

}  // namespace

KvStorage::KvStorage(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
                     int32_t block_size, DType dtype) {
    NVLLM_CHECK(groups.size() == num_blocks.size(), "one block count a cache group");
    layers_.resize(num_layers(groups));
    for (size_t g = 0; g < groups.size(); ++g) {
        const KvGroup& group = groups[g];
        for (const int32_t layer : group.layers) {
            KvLayer& place = layers_.at(static_cast<size_t>(layer));
            place.group = static_cast<int32_t>(g);
            for (TensorView* view : {&place.keys, &place.values}) {
                tensors_.push_back(Tensor::allocate(
                    dtype, {num_blocks[g], group.kv_heads, block_size, group.head_dim}));
                *view = tensors_.back().mutable_view();
            }
        }
    }
}

void KvStorage::copy_blocks(const Context& context, std::span<const BlockCopy> copies) {
    for (const BlockCopy& copy : copies) {
        const std::array<int32_t, 2> pair = {copy.from, copy.to};
        const ConstTensorView pairs(pair.data(), DType::i32, {1, 2});
        for (const KvLayer& layer : layers_) {
            if (layer.group != copy.group) continue;
            ops::copy_blocks(context, pairs, layer.keys);
            ops::copy_blocks(context, pairs, layer.values);
        }
    }
}

size_t KvStorage::bytes() const {
    size_t total = 0;
    for (const Tensor& tensor : tensors_) total += tensor.bytes();
    return total;
}

}  // namespace nvllm
