// Reserves and copies key-value blocks.
#include "lib/execute/kv_storage.h"

#include <array>

#include "kernels/ops/kv_cache.h"
#include "lib/system/memory_info.h"

namespace nvllm {
namespace {

int64_t layer_values(const CacheLayout& group, int32_t block_size) {
    return group.vectors() * group.head_dim * block_size;
}

// Of keys or of values of one layer.
int64_t layer_scales(const CacheLayout& group, int32_t block_size) {
    return int64_t{group.kv_heads} * block_size;
}

// Of the device, or of its host.
enum class PoolPlace : uint8_t { device, host };

std::vector<Tensor> reserve(const std::vector<CacheLayout>& groups,
                            std::span<const int32_t> num_blocks, int32_t block_size, DType dtype,
                            const ComputeDevice& device, PoolPlace place) {
    NVLLM_CHECK(groups.size() == num_blocks.size(), "one block count a cache group");
    std::vector<Tensor> pools;
    for (size_t g = 0; g < groups.size(); ++g) {
        const bool is_state = groups[g].is_state();
        const DType stored = is_state ? DType::f32 : dtype;
        const int64_t bytes =
            is_state ? groups[g].bytes_per_state() : groups[g].bytes_per_token(dtype) * block_size;
        const int64_t block = bytes / static_cast<int64_t>(dtype_bytes(stored));
        pools.push_back(place == PoolPlace::device
                            ? Tensor::allocate(stored, {num_blocks[g], block}, device)
                            : Tensor::allocate_host(stored, {num_blocks[g], block}, device));
    }
    return pools;
}

// One layer's part of every block, from value `first` of each on.
TensorView part_of(const TensorView& pool, int64_t first, std::array<int64_t, 3> shape) {
    const auto offset = static_cast<size_t>(first) * dtype_bytes(pool.dtype);
    TensorView part(static_cast<std::byte*>(pool.data) + offset, pool.dtype,
                    {pool.dim(0), shape[0], shape[1], shape[2]}, pool.device);
    part.strides[0] = pool.stride(0);
    return part;
}

// Float32 scales from byte `first` of each block of int8 on.
TensorView scales_of(const TensorView& pool, int64_t first, const CacheLayout& group,
                     int32_t block_size) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    NVLLM_CHECK(first % kBytes == 0 && pool.stride(0) % kBytes == 0,
                "scales lie at multiples of their size");
    TensorView scales(pool.as<std::byte>() + first, DType::f32,
                      {pool.dim(0), group.kv_heads, block_size}, pool.device);
    scales.strides[0] = pool.stride(0) / kBytes;
    return scales;
}

// Each layer's part of every slot.
void place_states(const TensorView& pool, const CacheLayout& group, int32_t index,
                  std::vector<KvLayer>& layers) {
    const int64_t width = group.state_bytes / static_cast<int64_t>(sizeof(float));
    int64_t first = 0;
    for (const int32_t layer : group.layers) {
        KvLayer& place = layers.at(static_cast<size_t>(layer));
        place.group = index;
        place.state = pool.columns(first, width);
        first += width;
    }
}

size_t block_bytes(const TensorView& pool) {
    return static_cast<size_t>(pool.stride(0)) * dtype_bytes(pool.dtype);
}

void check_block(const ConstTensorView& pool, int32_t block) {
    NVLLM_CHECK(block >= 0 && block < pool.dim(0), "a block outside of the storage");
}

std::byte* block_of(const TensorView& pool, int32_t block) {
    check_block(pool, block);
    return pool.as<std::byte>() + static_cast<size_t>(block) * block_bytes(pool);
}

}  // namespace

KvStorage::KvStorage(const std::vector<CacheLayout>& groups, std::span<const int32_t> num_blocks,
                     std::span<const int32_t> num_host_blocks, int32_t block_size, DType dtype,
                     const ComputeDevice& device)
    : device_(device),
      pools_(reserve(groups, num_blocks, block_size, dtype, device, PoolPlace::device)),
      layers_(layers_of(groups, block_size)) {
    if (num_host_blocks.empty()) return;
    host_pools_ = reserve(groups, num_host_blocks, block_size, dtype, device, PoolPlace::host);
}

std::array<int64_t, 3> KvStorage::keys_of(const CacheLayout& group, int32_t block_size) const {
    if (ops::keys_lie_as_values(device_.id())) return {group.kv_heads, block_size, group.head_dim};
    return {group.kv_heads, group.head_dim, block_size};
}

std::vector<KvLayer> KvStorage::layers_of(const std::vector<CacheLayout>& groups,
                                          int32_t block_size) const {
    std::vector<KvLayer> layers(num_cached_layers(groups));
    for (KvLayer& layer : layers) layer.group = -1;  // until it is found in one
    for (size_t g = 0; g < groups.size(); ++g) {
        const CacheLayout& group = groups[g];
        const TensorView pool = pools_[g].mutable_view();
        if (group.is_state()) {
            place_states(pool, group, static_cast<int32_t>(g), layers);
            continue;
        }
        int64_t first = 0;
        // Behind the values of all layers, so that these stay aligned as they are.
        int64_t first_scale = layer_values(group, block_size) * std::ssize(group.layers);
        for (const int32_t layer : group.layers) {
            KvLayer& place = layers.at(static_cast<size_t>(layer));
            const int64_t keys = int64_t{group.kv_heads} * group.head_dim * block_size;
            place.group = static_cast<int32_t>(g);
            place.keys = part_of(pool, first, keys_of(group, block_size));
            if (!group.is_latent()) {
                place.values =
                    part_of(pool, first + keys, {group.kv_heads, block_size, group.head_dim});
            }
            first += layer_values(group, block_size);
            if (pool.dtype != DType::i8) continue;
            const auto scale_bytes =
                layer_scales(group, block_size) * static_cast<int64_t>(sizeof(float));
            place.key_scales = scales_of(pool, first_scale, group, block_size);
            first_scale += scale_bytes;
            if (group.is_latent()) continue;
            place.value_scales = scales_of(pool, first_scale, group, block_size);
            first_scale += scale_bytes;
        }
    }
    return layers;
}

void KvStorage::copy_blocks(const Context& context, std::span<const BlockMove> copies) {
    std::vector<std::vector<int32_t>> pairs(pools_.size());  // by group: from, to
    for (const BlockMove& copy : copies) {
        const auto group = static_cast<size_t>(copy.group);
        check_block(pools_.at(group).view(), copy.from);
        check_block(pools_.at(group).view(), copy.to);
        pairs[group].insert(pairs[group].end(), {copy.from, copy.to});
    }
    for (size_t group = 0; group < pools_.size(); ++group) {
        if (pairs[group].empty()) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const auto bytes = pairs[group].size() * sizeof(int32_t);
        void* const there = context.scratch->take(bytes);
        device_.copy_in(context.stream, there, pairs[group].data(), bytes);
        const TensorView pool = pools_[group].mutable_view();
        ops::copy_blocks(context,
                         {there, DType::i32, {std::ssize(pairs[group]) / 2, 2}, device_.id()}, pool,
                         pool);
    }
}

void KvStorage::move_slots(const Context& context, std::span<const SlotMove> moves) {
    for (int32_t group = 0; group < std::ssize(pools_); ++group) {
        std::vector<int64_t> pairs;
        for (const SlotMove& move : moves) {
            if (move.group == group) pairs.insert(pairs.end(), {move.from, move.to});
        }
        if (pairs.empty()) continue;
        const ConstTensorView view(pairs.data(), DType::i64, {std::ssize(pairs) / 2, 2});
        for (const KvLayer& layer : layers_) {
            if (layer.group != group) continue;
            ops::move_slots(context, view, layer.keys, layer.values,
                            {1.0f, 1.0f, layer.key_scales, layer.value_scales});
        }
    }
}

std::byte* KvStorage::host_block(int32_t group, HostBlockId block) const {
    return block_of(host_pools_.at(static_cast<size_t>(group)).mutable_view(), block);
}

uint64_t KvStorage::swap_out(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        const auto group = static_cast<size_t>(move.group);
        const TensorView pool = pools_.at(group).mutable_view();
        const TensorView host = host_pools_.at(group).mutable_view();
        device_.copy_out(context.stream, block_of(host, move.host_block),
                         block_of(pool, move.device_block), block_bytes(pool));
        bytes += block_bytes(pool);
    }
    return bytes;
}

uint64_t KvStorage::swap_in(const Context& context, std::span<const SwapMove> moves) {
    uint64_t bytes = 0;
    for (const SwapMove& move : moves) {
        const auto group = static_cast<size_t>(move.group);
        const TensorView pool = pools_.at(group).mutable_view();
        const TensorView host = host_pools_.at(group).mutable_view();
        device_.copy_in(context.stream, block_of(pool, move.device_block),
                        block_of(host, move.host_block), block_bytes(pool));
        bytes += block_bytes(pool);
    }
    return bytes;
}

void KvStorage::use_first(std::span<const int32_t> num_blocks) {
    for (size_t g = 0; g < pools_.size(); ++g) {
        const TensorView pool = pools_[g].mutable_view();
        NVLLM_CHECK(num_blocks[g] <= pool.dim(0),
                    "the cache grows no further than it was reserved");
        if (!device_.is_cpu()) continue;
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
