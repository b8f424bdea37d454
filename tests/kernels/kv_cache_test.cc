// Tests of writes to paged key-value storage.
#include "kernels/ops/kv_cache.h"

#include "kernels/error.h"
#include "testing.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Slots {
    int64_t blocks;
    int64_t block_size;
    std::vector<int64_t> of_tokens;
};

Slots side_by_side(int64_t blocks, int64_t block_size, int64_t first, int64_t count) {
    Slots slots{blocks, block_size, {}};
    for (int64_t i = 0; i < count; ++i) slots.of_tokens.push_back(first + i);
    return slots;
}

void check_slots(const Context& context, const Slots& slots, DType dtype, int64_t head_dim) {
    const int64_t heads = 3, block_size = slots.block_size, width = heads * head_dim;
    const auto tokens = static_cast<int64_t>(slots.of_tokens.size());
    std::vector<float> x = testing::Random(1).values(tokens * 2 * width);
    std::vector<int64_t> of_tokens = slots.of_tokens;
    const TensorView both = testing::view(x, {tokens, 2 * width});
    Buffer keys(dtype, slots.blocks * block_size * width),
        values(dtype, slots.blocks * block_size * width);
    ops::write_kv(context, both.columns(0, width).split_last(heads),
                  both.columns(width, width).split_last(heads), testing::view(of_tokens, {tokens}),
                  keys.view({slots.blocks, heads, head_dim, block_size}),
                  values.view({slots.blocks, heads, block_size, head_dim}));
    Buffer want_keys(dtype, keys.size()), want_values(dtype, keys.size());
    for (int64_t t = 0; t < tokens; ++t) {
        const int64_t slot = slots.of_tokens[static_cast<size_t>(t)];
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

}  // namespace

TEST_CASE("write_kv puts each token's heads into its slot and touches nothing else") {
    testing::Machine machine;
    const Slots all[] = {{5, 4, {19, 0, 7, 8, 12, 3}},
                         {4, 4, {1, 2, 3, 4, 8, 9, 11}},
                         side_by_side(4, 16, 5, 50),
                         side_by_side(2, 80, 3, 77)};
    testing::for_each_isa([&](cpu::Isa) {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t head_dim : {1, 17, 64, 80}) {
                for (const Slots& slots : all) {
                    check_slots(machine.context(), slots, dtype, head_dim);
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
