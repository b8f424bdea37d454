// Reserves and copies key-value blocks.
#include "lib/execute/kv_storage.h"

#include <array>

#include "kernels/ops/kv_cache.h"
#include "lib/base/memory_info.h"

namespace nvllm {
namespace {

int64_t layer_values(const KvGroup& group, int32_t block_size) {
    return 2 * group.kv_heads * group.head_dim * block_size;
}

std::vector<Tensor> reserve(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
                            int32_t block_size, DType dtype) {
    NVLLM_CHECK(groups.size() == num_blocks.size(), "one block count a cache group");
    std::vector<Tensor> pools;
    for (size_t g = 0; g < groups.size(); ++g) {
        const int64_t block = layer_values(groups[g], block_size) * std::ssize(groups[g].layers);
        pools.push_back(Tensor::allocate(dtype, {num_blocks[g], block}));
    }
    return pools;
}

// One layer's part of every block, from value `first` of each on.
TensorView part_of(const TensorView& pool, int64_t first, std::array<int64_t, 3> shape) {
    const auto offset = static_cast<size_t>(first) * dtype_bytes(pool.dtype);
    TensorView part(static_cast<std::byte*>(pool.data) + offset, pool.dtype,
                    {pool.dim(0), shape[0], shape[1], shape[2]});
    part.strides[0] = pool.stride(0);
    return part;
}

// The bytes of the block.
uint64_t copy_block(const Context& context, std::array<int32_t, 2> pair, const TensorView& source,
                    const TensorView& target) {
    ops::copy_blocks(context, ConstTensorView(pair.data(), DType::i32, {1, 2}), source, target);
    return static_cast<uint64_t>(target.stride(0)) * dtype_bytes(target.dtype);
}

}  // namespace

KvStorage::KvStorage(const std::vector<KvGroup>& groups, std::span<const int32_t> num_blocks,
                     std::span<const int32_t> num_host_blocks, int32_t block_size, DType dtype)
    : pools_(reserve(groups, num_blocks, block_size, dtype)),
      layers_(layers_of(groups, block_size)) {
    if (!num_host_blocks.empty()) host_pools_ = reserve(groups, num_host_blocks, block_size, dtype);
}

std::vector<KvLayer> KvStorage::layers_of(const std::vector<KvGroup>& groups,
                                          int32_t block_size) const {
    size_t num_layers = 0;
    for (const KvGroup& group : groups) num_layers += group.layers.size();
    std::vector<KvLayer> layers(num_layers);
    for (size_t g = 0; g < groups.size(); ++g) {
        const KvGroup& group = groups[g];
        const TensorView pool = pools_[g].mutable_view();
        int64_t first = 0;
        for (const int32_t layer : group.layers) {
            KvLayer& place = layers.at(static_cast<size_t>(layer));
            const int64_t half = layer_values(group, block_size) / 2;
            place.group = static_cast<int32_t>(g);
            place.keys = part_of(pool, first, {group.kv_heads, group.head_dim, block_size});
            place.values =
                part_of(pool, first + half, {group.kv_heads, block_size, group.head_dim});
            first += 2 * half;
        }
    }
    return layers;
}

void KvStorage::copy_blocks(const Context& context, std::span<const BlockMove> copies) {
    for (const BlockMove& copy : copies) {
        const TensorView pool = pools_.at(static_cast<size_t>(copy.group)).mutable_view();
        copy_block(context, {copy.from, copy.to}, pool, pool);
    }
}

uint64_t KvStorage::swap_out(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        const auto group = static_cast<size_t>(move.group);
        bytes += copy_block(context, {move.device_block, move.host_block},
                            pools_.at(group).mutable_view(), host_pools_.at(group).mutable_view());
    }
    return bytes;
}

uint64_t KvStorage::swap_in(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        const auto group = static_cast<size_t>(move.group);
        bytes += copy_block(context, {move.host_block, move.device_block},
                            host_pools_.at(group).mutable_view(), pools_.at(group).mutable_view());
    }
    return bytes;
}

void KvStorage::use_first(std::span<const int32_t> num_blocks) {
    for (size_t g = 0; g < pools_.size(); ++g) {
        const TensorView pool = pools_[g].mutable_view();
        NVLLM_CHECK(num_blocks[g] <= pool.dim(0),
                    "the cache grows no further than it was reserved");
        const TensorView rest = pool.rows(num_blocks[g], pool.dim(0) - num_blocks[g]);
        release_pages(rest.data, static_cast<size_t>(rest.numel()) * dtype_bytes(rest.dtype));
    }
}

size_t KvStorage::bytes() const {
    size_t total = 0;
    for (const Pools* pools : {&pools_, &host_pools_}) {
        for (const Tensor& pool : *pools) total += pool.bytes();
    }
    return total;
}

}  // namespace nvllm
