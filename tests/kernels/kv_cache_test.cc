// Tests of writes to paged key-value storage.
#include "kernels/ops/kv_cache.h"

#include "kernels/error.h"
#include "testing.h"

using namespace nvllm;
using testing::Buffer;

TEST_CASE("write_kv puts each token's heads into its slot and touches nothing else") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t head_dim : {1, 17, 64, 80}) {
                const int64_t blocks = 5, heads = 3, block_size = 4, tokens = 6,
                              width = heads * head_dim;
                std::vector<float> x = testing::Random(1).values(tokens * 2 * width);
                const TensorView both = testing::view(x, {tokens, 2 * width});
                std::vector<int64_t> slots = {19, 0, 7, 8, 12, 3};
                Buffer keys(dtype, blocks * block_size * width),
                    values(dtype, blocks * block_size * width);
                ops::write_kv(machine.context(), both.columns(0, width).split_last(heads),
                              both.columns(width, width).split_last(heads),
                              testing::view(slots, {tokens}),
                              keys.view({blocks, heads, head_dim, block_size}),
                              values.view({blocks, heads, block_size, head_dim}));
                Buffer want_keys(dtype, keys.size()), want_values(dtype, keys.size());
                for (int64_t t = 0; t < tokens; ++t) {
                    const int64_t slot = slots[static_cast<size_t>(t)];
                    for (int64_t i = 0; i < width; ++i) {
                        const int64_t head = slot / block_size * heads + i / head_dim;
                        const int64_t offset = slot % block_size;
                        want_keys.set((head * head_dim + i % head_dim) * block_size + offset,
                                      x[static_cast<size_t>(t * 2 * width + i)]);
                        want_values.set((head * block_size + offset) * head_dim + i % head_dim,
                                        x[static_cast<size_t>(t * 2 * width + width + i)]);
                    }
                }
                for (int64_t i = 0; i < keys.size(); ++i) {
                    REQUIRE(keys[i] == want_keys[i]);
                    REQUIRE(values[i] == want_values[i]);
                }
            }
        }
    });
}

TEST_CASE("copy_blocks copies pairs in order") {
    testing::Machine machine;
    Buffer cache(DType::bf16, testing::Random(2).values(4 * 6));
    const Buffer before = cache;
    std::vector<int32_t> pairs = {0, 2, 2, 3, 1, 1};
    ops::copy_blocks(machine.context(), testing::view(pairs, {3, 2}), cache.view({4, 2, 3}),
                     cache.view({4, 2, 3}));
    for (int64_t i = 0; i < 6; ++i) {
        CHECK(cache[i] == before[i]);
        CHECK(cache[6 + i] == before[6 + i]);
        CHECK(cache[12 + i] == before[i]);
        CHECK(cache[18 + i] == before[i]);
    }
    pairs[0] = 4;
    CHECK_THROWS_AS(ops::copy_blocks(machine.context(), testing::view(pairs, {3, 2}),
                                     cache.view({4, 2, 3}), cache.view({4, 2, 3})),
                    Error);
}
