// Tests of the way from projection to attention on the CPU: the bits of the separate ops.
#include "kernels/ops/attention_input.h"

#include "kernels/error.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/rope.h"
#include "testing.h"

using namespace nvllm;
using testing::Buffer;

namespace {

constexpr int64_t kTokens = 3, kHeads = 4, kKvHeads = 2, kHeadDim = 10, kBlockSize = 4;
constexpr int64_t kQueryWidth = kHeads * kHeadDim, kKvWidth = kKvHeads * kHeadDim;
constexpr int64_t kWidth = kQueryWidth + 2 * kKvWidth;

struct Storage {
    std::vector<float> keys = std::vector<float>(2 * kBlockSize * kKvWidth), values = keys;
    TensorView key_view() { return testing::view(keys, {2, kKvHeads, kHeadDim, kBlockSize}); }
    TensorView value_view() { return testing::view(values, {2, kKvHeads, kBlockSize, kHeadDim}); }
};

void check_bits(ops::RopePairs pairs) {
    testing::Machine machine;
    const Context& context = machine.context();
    testing::Random random(4);
    std::vector<float> projected = random.values(kTokens * (kWidth + 1)), separate = projected;
    Buffer norm(DType::bf16, random.values(kHeadDim));
    std::vector<float> cosines = random.values(kTokens * 3), sines = random.values(kTokens * 3);
    std::vector<int64_t> slots{5, 0, 7};
    Storage storage, expected;
    ops::AttentionInputOptions options;
    options.heads = kHeads;
    options.kv_heads = kKvHeads;
    options.query_norm = norm.view({kHeadDim});
    options.key_norm = norm.view({kHeadDim});
    options.key_norm_options = {1e-5f, 1.0f};
    options.cosines = testing::view(cosines, {kTokens, 3});
    options.sines = testing::view(sines, {kTokens, 3});
    options.pairs = pairs;
    ops::attention_input(context, options, testing::matrix(projected, kTokens, kWidth, kWidth + 1),
                         testing::view(slots, {kTokens}), storage.key_view(), storage.value_view());

    const TensorView all = testing::matrix(separate, kTokens, kWidth, kWidth + 1);
    const TensorView q = all.columns(0, kQueryWidth).split_last(kHeads);
    const TensorView k = all.columns(kQueryWidth, kKvWidth).split_last(kKvHeads);
    const TensorView v = all.columns(kQueryWidth + kKvWidth, kKvWidth).split_last(kKvHeads);
    ops::rms_norm(context, q, options.query_norm, options.query_norm_options, q);
    ops::rms_norm(context, k, options.key_norm, options.key_norm_options, k);
    ops::rope(context, options.cosines, options.sines, options.pairs, q);
    ops::rope(context, options.cosines, options.sines, options.pairs, k);
    ops::write_kv(context, k, v, testing::view(slots, {kTokens}), expected.key_view(),
                  expected.value_view());
    CHECK(testing::same_bits(storage.keys, expected.keys));
    CHECK(testing::same_bits(storage.values, expected.values));
    for (int64_t token = 0; token < kTokens; ++token) {
        for (int64_t i = 0; i < kQueryWidth; ++i) {
            const auto at = static_cast<size_t>(token * (kWidth + 1) + i);
            CHECK(projected[at] == separate[at]);
        }
    }
    options.heads = kHeads + 1;
    CHECK_THROWS_AS(ops::attention_input(
                        context, options, testing::matrix(projected, kTokens, kWidth, kWidth + 1),
                        testing::view(slots, {kTokens}), storage.key_view(), storage.value_view()),
                    Error);
}

}  // namespace

TEST_CASE("attention's input has the bits of norms, rotation and writing after each other") {
    for (const auto pairs : {ops::RopePairs::halves, ops::RopePairs::interleaved}) {
        check_bits(pairs);
    }
}
