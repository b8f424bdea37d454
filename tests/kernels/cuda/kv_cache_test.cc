// Emulated tests of CUDA writes to paged key-value storage.
#include "kernels/cuda/ops.h"

#include "emulated.h"
#include "kernels/ops/cpu_ops.h"

using namespace nvllm;
using testing::Buffer;

namespace {

void check_writing(DType dtype, DType stored, int64_t kv_heads, int64_t head_dim, int64_t gap) {
    testing::Machine machine(1);
    testing::Random random(1);
    const int64_t block_size = 4, blocks = 3, width = kv_heads * head_dim;
    Buffer rows(dtype, random.values(4 * (2 * width + gap)));
    Buffer keys(stored, blocks * block_size * width), values = keys;
    std::vector<int64_t> slots{9, 0, -1, 7};
    const TensorView both = rows.matrix(4, 2 * width, 2 * width + gap);
    const auto cache = [&](Buffer& buffer) {
        return buffer.view({blocks, kv_heads, block_size, head_dim});
    };
    cuda::write_kv(machine.context(), both.columns(0, width).split_last(kv_heads),
                   both.columns(width, width).split_last(kv_heads), testing::view(slots, {4}),
                   cache(keys), cache(values));
    Buffer expected_keys(stored, keys.size()), expected_values = expected_keys;
    for (int64_t t = 0; t < 4; ++t) {
        const int64_t slot = slots[static_cast<size_t>(t)];
        for (int64_t i = 0; slot >= 0 && i < width; ++i) {
            const int64_t head = i / head_dim;
            const int64_t to =
                ((slot / block_size * kv_heads + head) * block_size + slot % block_size) *
                    head_dim +
                i % head_dim;
            expected_keys.set(to, rows[t * (2 * width + gap) + i]);
            expected_values.set(to, rows[t * (2 * width + gap) + width + i]);
        }
    }
    for (int64_t i = 0; i < keys.size(); ++i) {
        CHECK(keys[i] == expected_keys[i]);
        CHECK(values[i] == expected_values[i]);
    }
}

// Scaled storage holds the CPU's bytes and scales, each key in its own order.
void check_scaled_writing(DType dtype, DType stored, int64_t head_dim, int64_t gap) {
    CAPTURE(head_dim);
    testing::Machine machine(1);
    const int64_t kv_heads = 2, block_size = 4, blocks = 3, width = kv_heads * head_dim;
    Buffer rows(dtype, testing::Random(7).values(5 * (2 * width + gap), 30.0f));
    for (int64_t i = 0; i < head_dim; ++i) rows.set(2 * width + gap + i, 0.0f);
    rows.set(3 * (2 * width + gap) + 1, std::nanf(""));
    std::vector<float> dequantized;
    for (int64_t t = 0; t < 4; ++t) {
        for (int64_t i = 0; i < 2 * width; ++i)
            dequantized.push_back(rows[t * (2 * width + gap) + i]);
    }
    std::vector<int64_t> slots{9, 0, 3, 7}, device_slots{9, 0, 3, 7, -1};
    struct Storage {
        Buffer keys, values;
        std::vector<float> key_scales, value_scales;
    };
    const int64_t positions = blocks * kv_heads * block_size;
    Storage device{Buffer(stored, positions * head_dim), Buffer(stored, positions * head_dim),
                   std::vector<float>(static_cast<size_t>(positions)),
                   std::vector<float>(static_cast<size_t>(positions))};
    Storage host = device;
    const auto scales = [&](Storage& storage) {
        return ops::KvScales{0.3f, 7.0f,
                             testing::view(storage.key_scales, {blocks, kv_heads, block_size}),
                             testing::view(storage.value_scales, {blocks, kv_heads, block_size})};
    };
    const TensorView both = rows.matrix(5, 2 * width, 2 * width + gap);
    cuda::write_kv(machine.context(), both.columns(0, width).split_last(kv_heads),
                   both.columns(width, width).split_last(kv_heads),
                   testing::view(device_slots, {5}),
                   device.keys.view({blocks, kv_heads, block_size, head_dim}),
                   device.values.view({blocks, kv_heads, block_size, head_dim}), scales(device));
    const TensorView wide = testing::view(dequantized, {4, 2 * width});
    cpu::write_kv(machine.context(), wide.columns(0, width).split_last(kv_heads),
                  wide.columns(width, width).split_last(kv_heads), testing::view(slots, {4}),
                  host.keys.view({blocks, kv_heads, head_dim, block_size}),
                  host.values.view({blocks, kv_heads, block_size, head_dim}), scales(host));
    bool same = true;
    for (int64_t head = 0; head < blocks * kv_heads; ++head) {
        for (int64_t p = 0; p < block_size; ++p) {
            const auto place = static_cast<size_t>(head * block_size + p);
            same = same && testing::close(device.key_scales[place], host.key_scales[place], 0) &&
                   testing::close(device.value_scales[place], host.value_scales[place], 0);
            for (int64_t d = 0; d < head_dim; ++d) {
                const int64_t at = (head * block_size + p) * head_dim + d;
                same = same &&
                       testing::close(device.keys[at],
                                      host.keys[(head * head_dim + d) * block_size + p], 0) &&
                       testing::close(device.values[at], host.values[at], 0);
            }
        }
    }
    CHECK(same);
}

}  // namespace

TEST_CASE("cuda: keys and values come to their slots; rows without a slot to none") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const DType stored : testing::kFloatTypes) {
                check_writing(dtype, stored, 2, 16, 0);
                check_writing(dtype, stored, 3, 10, 1);
            }
        }
    });
}

TEST_CASE("cuda: scaled keys and values are the CPU's, bit for bit") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const DType stored : {DType::f8_e4m3, DType::i8}) {
                check_scaled_writing(dtype, stored, 32, 0);
                check_scaled_writing(dtype, stored, 10, 1);
            }
        }
        check_scaled_writing(DType::bf16, DType::i8, 256, 0);
    });
}

TEST_CASE("cuda: blocks are copied in the order of the pairs") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const int64_t width : {8, 3, 700}) {
            Buffer storage(DType::bf16, testing::Random(6).values(5 * width));
            const Buffer before = storage;
            std::vector<int32_t> pairs{0, 1, 1, 2, 4, 0};
            cuda::copy_blocks(machine.context(), testing::view(pairs, {3, 2}),
                              storage.view({5, width}), storage.view({5, width}));
            const int64_t from[] = {4, 0, 0, 3, 4};
            for (int64_t i = 0; i < 5 * width; ++i)
                CHECK(storage[i] == before[from[i / width] * width + i % width]);
        }
    });
}
