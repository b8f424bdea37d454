// Reserves and copies key-value blocks.
#include "lib/execute/kv_storage.h"

#include <array>

#include "kernels/ops/kv_cache.h"
#include "lib/base/memory_info.h"

namespace nvllm {
namespace {

size_t num_layers(const std::vector<KvGroup>& groups) {
    size_t count = 0;
    for (const KvGroup& group : groups) count += group.layers.size();
    return count;
}

// One block, in all layers of its group.
uint64_t copy_block(const Context& context, int32_t group, std::array<int32_t, 2> pair,
                    std::span<const KvLayer> source, std::span<const KvLayer> target) {
    const ConstTensorView pairs(pair.data(), DType::i32, {1, 2});
    uint64_t bytes = 0;
    for (size_t layer = 0; layer < target.size(); ++layer) {
        if (target[layer].group != group) continue;
        ops::copy_blocks(context, pairs, source[layer].keys, target[layer].keys);
        ops::copy_blocks(context, pairs, source[layer].values, target[layer].values);
        bytes += 2 * static_cast<uint64_t>(target[layer].keys.stride(0)) *
                 dtype_bytes(target[layer].keys.dtype);
    }
    return bytes;
}

}  // namespace

KvStorage::KvStorage(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
                     std::span<const int32_t> num_host_blocks, int32_t block_size, DType dtype) {
    layers_ = reserve(groups, num_blocks, block_size, dtype);
    if (!num_host_blocks.empty())
        host_layers_ = reserve(groups, num_host_blocks, block_size, dtype);
}

std::vector<KvLayer> KvStorage::reserve(const std::vector<KvGroup>& groups,
                                        std::span<const int32_t> num_blocks, int32_t block_size,
                                        DType dtype) {
    NVLLM_CHECK(groups.size() == num_blocks.size(), "one block count a cache group");
    std::vector<KvLayer> layers(num_layers(groups));
    for (size_t g = 0; g < groups.size(); ++g) {
        const KvGroup& group = groups[g];
        for (const int32_t layer : group.layers) {
            KvLayer& place = layers.at(static_cast<size_t>(layer));
            place.group = static_cast<int32_t>(g);
            place.keys =
                allocate(dtype, {num_blocks[g], group.kv_heads, group.head_dim, block_size});
            place.values =
                allocate(dtype, {num_blocks[g], group.kv_heads, block_size, group.head_dim});
        }
    }
    return layers;
}

TensorView KvStorage::allocate(DType dtype, std::initializer_list<int64_t> shape) {
    tensors_.push_back(Tensor::allocate(dtype, shape));
    return tensors_.back().mutable_view();
}

void KvStorage::copy_blocks(const Context& context, std::span<const BlockMove> copies) {
    for (const BlockMove& copy : copies) {
        copy_block(context, copy.group, {copy.from, copy.to}, layers_, layers_);
    }
}

uint64_t KvStorage::swap_out(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        bytes += copy_block(context, move.group, {move.device_block, move.host_block}, layers_,
                            host_layers_);
    }
    return bytes;
}

uint64_t KvStorage::swap_in(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        bytes += copy_block(context, move.group, {move.host_block, move.device_block}, host_layers_,
                            layers_);
    }
    return bytes;
}

void KvStorage::use_first(std::span<const int32_t> num_blocks) {
    for (const KvLayer& layer : layers_) {
        const int64_t kept = num_blocks[static_cast<size_t>(layer.group)];
        for (const TensorView& view : {layer.keys, layer.values}) {
            NVLLM_CHECK(kept <= view.dim(0), "the cache grows no further than it was reserved");
            const size_t block = static_cast<size_t>(view.stride(0)) * dtype_bytes(view.dtype);
            release_pages(static_cast<std::byte*>(view.data) + static_cast<size_t>(kept) * block,
                          static_cast<size_t>(view.dim(0) - kept) * block);
        }
    }
}

size_t KvStorage::bytes() const {
    size_t total = 0;
    for (const Tensor& tensor : tensors_) total += tensor.bytes();
    return total;
}

}  // namespace nvllm
