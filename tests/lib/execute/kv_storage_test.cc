// Storage of keys and values: where its parts lie, and what goes with a block that is moved.
#include "lib/execute/kv_storage.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/kv_cache.h"

namespace nvllm {
namespace {

constexpr int32_t kBlockSize = 4, kBlocks = 4, kHeads = 2, kHeadDim = 6, kLayers = 3;

struct Machine {
    ThreadPool threads{1};
    ScratchArena scratch{size_t{1} << 16};
    Context context;

    Machine() {
        context.threads = &threads;
        context.scratch = &scratch;
    }
};

std::vector<CacheLayout> one_group() {
    CacheLayout group;
    for (int32_t layer = 0; layer < kLayers; ++layer) group.layers.push_back(layer);
    group.kv_heads = kHeads;
    group.head_dim = kHeadDim;
    return {group};
}

// A token's keys and values of one layer into a slot; values are twice the keys.
void write(const Machine& machine, const KvLayer& layer, int64_t slot, float first) {
    std::vector<float> keys, values;
    for (int i = 0; i < kHeads * kHeadDim; ++i) {
        keys.push_back(first + static_cast<float>(i));
        values.push_back(2 * keys.back());
    }
    const ConstTensorView one_slot(&slot, DType::i64, {1});
    ops::write_kv(machine.context, ConstTensorView(keys.data(), DType::f32, {1, kHeads, kHeadDim}),
                  ConstTensorView(values.data(), DType::f32, {1, kHeads, kHeadDim}), one_slot,
                  layer.keys, layer.values, {1.0f, 1.0f, layer.key_scales, layer.value_scales});
}

float scale_at(const TensorView& scales, int64_t block, int64_t head, int64_t offset) {
    return scales.as<float>()[block * scales.stride(0) + head * kBlockSize + offset];
}

// The last value of a head, as it is stored.
int value_at(const KvLayer& layer, int64_t block, int64_t head, int64_t offset) {
    return layer.values.as<int8_t>()[block * layer.values.stride(0) +
                                     (head * kBlockSize + offset) * kHeadDim + kHeadDim - 1];
}

bool has_written(const KvStorage& storage, int64_t block, float first) {
    for (int32_t layer = 0; layer < kLayers; ++layer) {
        const KvLayer& place = storage.layers()[static_cast<size_t>(layer)];
        const float keys = first + static_cast<float>(layer) * 100.0f;
        for (int64_t head = 0; head < kHeads; ++head) {
            const float most = keys + static_cast<float>((head + 1) * kHeadDim - 1);
            if (scale_at(place.key_scales, block, head, 2) != most / 127.0f ||
                scale_at(place.value_scales, block, head, 2) != 2 * most / 127.0f ||
                value_at(place, block, head, 2) != 127) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace

TEST_CASE("scales of int8 lie apart from all values and go where their block goes") {
    const Machine machine;
    const std::vector<int32_t> blocks{kBlocks}, host_blocks{2};
    KvStorage storage(one_group(), blocks, host_blocks, kBlockSize, DType::i8);
    const int64_t token_bytes = one_group()[0].bytes_per_token(DType::i8);
    CHECK(token_bytes == 2 * kLayers * kHeads * (kHeadDim + 4));
    CHECK(storage.bytes() == static_cast<size_t>((kBlocks + 2) * kBlockSize * token_bytes));
    for (int32_t block = 0; block < kBlocks; ++block) {
        for (int32_t layer = 0; layer < kLayers; ++layer) {
            const float first = static_cast<float>(block) * 1000.0f + 1.0f;
            write(machine, storage.layers()[static_cast<size_t>(layer)], block * kBlockSize + 2,
                  first + static_cast<float>(layer) * 100.0f);
        }
    }
    for (int64_t block = 0; block < kBlocks; ++block) {
        CHECK(has_written(storage, block, static_cast<float>(block) * 1000.0f + 1.0f));
    }
    const std::vector<BlockMove> copies{{.group = 0, .from = 1, .to = 0}};
    storage.copy_blocks(machine.context, copies);
    CHECK(has_written(storage, 0, 1001.0f));
    const std::vector<SwapMove> out{{.group = 0, .device_block = 2, .host_block = 1}};
    const std::vector<SwapMove> back{{.group = 0, .device_block = 3, .host_block = 1}};
    CHECK(storage.swap_out(machine.context, out) ==
          static_cast<uint64_t>(kBlockSize * token_bytes));
    storage.swap_in(machine.context, back);
    CHECK(has_written(storage, 3, 2001.0f));
    CHECK(has_written(storage, 1, 1001.0f));
}

TEST_CASE("copies of blocks are made in order, and a block outside of the storage is refused") {
    const Machine machine;
    const std::vector<int32_t> blocks{kBlocks};
    KvStorage storage(one_group(), blocks, {}, kBlockSize, DType::i8);
    for (int32_t layer = 0; layer < kLayers; ++layer) {
        const float first = 1.0f + static_cast<float>(layer) * 100.0f;
        write(machine, storage.layers()[static_cast<size_t>(layer)], kBlockSize + 2, first);
    }
    const std::vector<BlockMove> copies{{.group = 0, .from = 1, .to = 0},
                                        {.group = 0, .from = 0, .to = 2},
                                        {.group = 0, .from = 2, .to = 3}};
    storage.copy_blocks(machine.context, copies);
    for (const int64_t block : {0, 1, 2, 3}) CHECK(has_written(storage, block, 1.0f));
    const std::vector<BlockMove> outside{{.group = 0, .from = 0, .to = kBlocks}};
    CHECK_THROWS_AS(storage.copy_blocks(machine.context, outside), Error);
    const std::vector<BlockMove> none;
    storage.copy_blocks(machine.context, none);
    CHECK(has_written(storage, 3, 1.0f));
}

TEST_CASE("a slot that is moved takes its scales along, in all layers") {
    const Machine machine;
    const std::vector<int32_t> blocks{kBlocks};
    for (const DType dtype : {DType::i8, DType::f32}) {
        KvStorage storage(one_group(), blocks, {}, kBlockSize, dtype);
        for (int32_t layer = 0; layer < kLayers; ++layer) {
            const float first = 1.0f + static_cast<float>(layer) * 100.0f;
            write(machine, storage.layers()[static_cast<size_t>(layer)], kBlockSize + 3, first);
        }
        const int64_t to = 2 * kBlockSize + 2;
        const std::vector<SlotMove> moves{{0, kBlockSize + 3, 1}, {0, 1, to}, {0, to, to}};
        storage.move_slots(machine.context, moves);
        if (dtype == DType::i8) CHECK(has_written(storage, 2, 1.0f));
        for (const KvLayer& layer : storage.layers()) {
            if (dtype == DType::i8) break;
            const auto key = [&](int64_t block, int64_t dim, int64_t offset) {
                return layer.keys.as<float>()[block * layer.keys.stride(0) +
                                              (kHeadDim + dim) * kBlockSize + offset];
            };
            for (int64_t dim = 0; dim < kHeadDim; ++dim) CHECK(key(2, dim, 2) == key(1, dim, 3));
        }
        const std::vector<SlotMove> outside{{0, 0, kBlocks * kBlockSize}};
        CHECK_THROWS_AS(storage.move_slots(machine.context, outside), Error);
    }
}

TEST_CASE("a cache of one byte a value takes half of one of two") {
    const std::vector<int32_t> blocks{kBlocks};
    const auto bytes = [&](DType dtype) {
        const KvStorage storage(one_group(), blocks, {}, kBlockSize, dtype);
        return storage.bytes();
    };
    CHECK(2 * bytes(DType::f8_e4m3) == bytes(DType::bf16));
    CHECK(bytes(DType::i8) == bytes(DType::f8_e4m3) * (kHeadDim + 4) / kHeadDim);
}

TEST_CASE("a latent group stores one vector of a token, and its scale, in each layer") {
    const Machine machine;
    const std::vector<int32_t> blocks{kBlocks};
    CacheLayout group = one_group()[0];
    group.kind = CacheLayout::Kind::latent;
    group.kv_heads = 1;
    group.value_dim = 4;
    CHECK(group.bytes_per_token(DType::bf16) == kLayers * kHeadDim * 2);
    for (const DType dtype : {DType::f32, DType::i8}) {
        KvStorage storage({group}, blocks, {}, kBlockSize, dtype);
        const int64_t token_bytes = group.bytes_per_token(dtype);
        CHECK(storage.bytes() == static_cast<size_t>(kBlocks * kBlockSize * token_bytes));
        const std::vector<float> vector = {1, 2, 3, 4, 5, 6};
        std::vector<const KvLayer*> layers;
        for (const KvLayer& layer : storage.layers()) layers.push_back(&layer);
        REQUIRE(layers.size() == kLayers);
        for (size_t i = 0; i < layers.size(); ++i) {
            CHECK(layers[i]->values.rank == 0);
            std::vector<float> keys = vector;
            for (float& value : keys) value *= static_cast<float>(i + 1);
            const int64_t slot = kBlockSize + 2;
            ops::write_kv(machine.context, ConstTensorView(keys.data(), DType::f32, {1, 1, 6}), {},
                          ConstTensorView(&slot, DType::i64, {1}), layers[i]->keys,
                          layers[i]->values, {1.0f, 1.0f, layers[i]->key_scales, {}});
        }
        const std::vector<BlockMove> copies{{.group = 0, .from = 1, .to = 3}};
        storage.copy_blocks(machine.context, copies);
        for (size_t i = 0; i < layers.size(); ++i) {
            const auto factor = static_cast<float>(i + 1);
            const TensorView& keys = layers[i]->keys;
            const int64_t at = 3 * keys.stride(0) + 5 * keys.stride(2) + 2;
            if (dtype == DType::f32) {
                CHECK(keys.as<float>()[at] == 6.0f * factor);
            } else {
                CHECK(keys.as<int8_t>()[at] == 127);
                CHECK(scale_at(layers[i]->key_scales, 3, 0, 2) == 6.0f * factor / 127.0f);
            }
        }
    }
}

TEST_CASE("states of all layers of a slot go where the slot goes, in float32") {
    const Machine machine;
    std::vector<CacheLayout> groups = one_group();
    CacheLayout states;
    states.layers = {kLayers, kLayers + 1};
    states.kind = CacheLayout::Kind::state;
    states.state_bytes = 5 * sizeof(float);
    groups.push_back(states);
    const std::vector<int32_t> blocks{kBlocks, 3}, host_blocks{1, 1};
    KvStorage storage(groups, blocks, host_blocks, kBlockSize, DType::bf16);
    const auto value = [&](int32_t layer, int64_t slot, int64_t i) -> float& {
        const TensorView& state = storage.layers()[static_cast<size_t>(layer)].state;
        return state.as<float>()[slot * state.stride(0) + i];
    };
    for (int32_t layer = kLayers; layer < kLayers + 2; ++layer) {
        CHECK(storage.layers()[static_cast<size_t>(layer)].group == 1);
        CHECK(storage.layers()[static_cast<size_t>(layer)].state.dim(1) == 5);
        for (int64_t i = 0; i < 5; ++i) value(layer, 0, i) = static_cast<float>(10 * layer + i);
    }
    storage.copy_blocks(machine.context, std::vector<BlockMove>{{1, 0, 2}});
    CHECK(storage.swap_out(machine.context, std::vector<SwapMove>{{1, 2, 0, 0}}) ==
          2 * 5 * sizeof(float));
    storage.swap_in(machine.context, std::vector<SwapMove>{{1, 1, 0, 0}});
    for (int32_t layer = kLayers; layer < kLayers + 2; ++layer) {
        for (int64_t i = 0; i < 5; ++i) {
            CHECK(value(layer, 2, i) == value(layer, 0, i));
            CHECK(value(layer, 1, i) == static_cast<float>(10 * layer + i));
        }
    }
}

}  // namespace nvllm
