// Emulated tests of the way from projection to attention: the bits of the separate ops.
#include "kernels/cuda/ops.h"

#include "tests/kernels/cuda/emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Case {
    DType activation, weight, stored;
    int64_t heads, kv_heads, head_dim, rotary, gap;
    bool norms;
    ops::RopePairs pairs = ops::RopePairs::halves;
};

bool same(const Buffer& a, const Buffer& b) {
    for (int64_t i = 0; i < a.size(); ++i) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

void check_input(const Case& test) {
    CAPTURE(test.head_dim);
    testing::Machine machine(1);
    const Context& context = machine.context();
    testing::Random random(static_cast<uint64_t>(test.head_dim));
    constexpr int64_t kTokens = 3, kBlockSize = 4, kBlocks = 3;
    const int64_t query_width = test.heads * test.head_dim,
                  kv_width = test.kv_heads * test.head_dim;
    const int64_t width = query_width + 2 * kv_width;
    Buffer projected(test.activation, random.values(kTokens * (width + test.gap)));
    Buffer separate = projected;
    Buffer query_norm(test.weight, random.values(test.head_dim));
    Buffer key_norm(test.weight, random.values(test.head_dim));
    const int64_t half = test.rotary / 2;
    std::vector<float> cosines = random.values(kTokens * half),
                       sines = random.values(kTokens * half);
    std::vector<int64_t> slots{11, -1, 2};
    Buffer keys(test.stored, kBlocks * kBlockSize * kv_width);
    Buffer values = keys, expected_keys = keys, expected_values = keys;
    constexpr int64_t kPositions = kBlocks * kBlockSize;
    std::vector<float> key_scales(static_cast<size_t>(kPositions * test.kv_heads));
    std::vector<float> value_scales = key_scales, expected_key_scales = key_scales,
                       expected_value_scales = key_scales;
    const auto scales = [&](std::vector<float>& of_keys, std::vector<float>& of_values) {
        return ops::KvScales{0.02f, 0.03f,
                             testing::view(of_keys, {kBlocks, test.kv_heads, kBlockSize}),
                             testing::view(of_values, {kBlocks, test.kv_heads, kBlockSize})};
    };
    const auto cache = [&](Buffer& buffer) {
        return buffer.view({kBlocks, test.kv_heads, kBlockSize, test.head_dim});
    };

    ops::AttentionInputOptions options;
    options.heads = test.heads;
    options.kv_heads = test.kv_heads;
    options.scales = scales(key_scales, value_scales);
    if (test.norms) {
        options.query_norm = query_norm.view({test.head_dim});
        options.key_norm = key_norm.view({test.head_dim});
        options.query_norm_options = {1e-5f, 1.0f};
    }
    if (half > 0) {
        options.cosines = testing::view(cosines, {kTokens, half});
        options.sines = testing::view(sines, {kTokens, half});
        options.pairs = test.pairs;
    }
    cuda::attention_input(context, options, projected.matrix(kTokens, width, width + test.gap),
                          testing::view(slots, {kTokens}), cache(keys), cache(values));

    const TensorView all = separate.matrix(kTokens, width, width + test.gap);
    const TensorView q = all.columns(0, query_width).split_last(test.heads);
    const TensorView k = all.columns(query_width, kv_width).split_last(test.kv_heads);
    const TensorView v = all.columns(query_width + kv_width, kv_width).split_last(test.kv_heads);
    if (test.norms) {
        cuda::rms_norm(context, q, options.query_norm, options.query_norm_options, q);
        cuda::rms_norm(context, k, options.key_norm, options.key_norm_options, k);
    }
    if (half > 0) {
        cuda::rope(context, options.cosines, options.sines, options.pairs, q);
        cuda::rope(context, options.cosines, options.sines, options.pairs, k);
    }
    cuda::write_kv(context, k, v, testing::view(slots, {kTokens}), cache(expected_keys),
                   cache(expected_values), scales(expected_key_scales, expected_value_scales));
    CHECK(testing::same_bits(key_scales, expected_key_scales));
    CHECK(testing::same_bits(value_scales, expected_value_scales));
    CHECK(same(keys, expected_keys));
    CHECK(same(values, expected_values));
    bool same_queries = true;
    for (int64_t i = 0; i < projected.size(); ++i) {
        if (i % (width + test.gap) < query_width)
            same_queries = same_queries && projected[i] == separate[i];
    }
    CHECK(same_queries);
}

}  // namespace

TEST_CASE("cuda: attention's input has the bits of the separate ops") {
    under_all_schedules([] {
        for (const DType activation : testing::kFloatTypes) {
            check_input({activation, DType::bf16, DType::bf16, 4, 2, 128, 128, 0, true});
            check_input({activation, DType::f32, DType::f32, 3, 1, 22, 12, 3, true});
            check_input({activation, DType::f16, activation, 2, 2, 64, 32, 8, false});
            check_input({activation, DType::f16, DType::f16, 1, 1, 256, 0, 0, true});
            check_input({activation, DType::bf16, DType::f8_e4m3, 2, 2, 64, 32, 0, true});
            check_input({activation, DType::bf16, DType::i8, 3, 2, 64, 32, 0, true});
            check_input({activation, DType::f32, DType::i8, 2, 1, 22, 12, 3, false});
            constexpr auto kInterleaved = ops::RopePairs::interleaved;
            check_input(
                {activation, DType::bf16, DType::bf16, 4, 2, 128, 128, 0, true, kInterleaved});
            check_input({activation, DType::f32, DType::f32, 3, 1, 22, 10, 3, true, kInterleaved});
            check_input({activation, DType::f16, activation, 2, 2, 64, 32, 8, false, kInterleaved});
        }
    });
}
