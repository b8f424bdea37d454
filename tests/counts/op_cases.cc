// The ops of the CPU backend: a decoder layer's as nvllm-bench measures them, and those it leaves
// out.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "lib/measure/kernels/kernel_cases.h"
#include "tests/counts/counted_case.h"
#include "tests/kernels/attention_batch.h"
#include "tests/kernels/testing.h"

namespace nvllm::counts {
namespace {

using ::testing::AttentionPart;
using ::testing::AttentionShape;
using ::testing::Buffer;
using ::testing::Random;

// Small enough for callgrind, with more than one stretch of a sum over k in the products by `down`.
constexpr KernelShapes kLayer = {.hidden = 384,
                                 .intermediate = 1152,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 64,
                                 .prefill_tokens = 64,
                                 .decode_sequences = 4,
                                 .context = 500,
                                 .working_set_bytes = 0};
// No size is a multiple of a vector.
constexpr KernelShapes kOddLayer = {.hidden = 333,
                                    .intermediate = 77,
                                    .heads = 3,
                                    .kv_heads = 1,
                                    .head_dim = 37,
                                    .prefill_tokens = 29,
                                    .decode_sequences = 3,
                                    .context = 131,
                                    .working_set_bytes = 0};

// Those of `shapes` whose name begins with `prefix`.
void add_layer(const Context& context, const KernelShapes& shapes, const std::string& prefix,
               std::vector<CaseMaker>& makers) {
    for (const KernelCaseMaker& maker : kernel_cases(context, shapes)) {
        if (!maker.name.starts_with(prefix)) continue;
        makers.push_back([maker, dtype = shapes.dtype]() -> CountedCase {
            const KernelCase kernel = maker.make(maker.name);
            std::string name = kernel.name + " " + kernel.shape;
            if (!name.ends_with(dtype_name(dtype))) name += fmt::format(" {}", dtype_name(dtype));
            return {name, {}, [run = kernel.run] { run(0); }};
        });
    }
}

void add_layers(const Context& context, std::vector<CaseMaker>& makers) {
    for (const DType dtype : ::testing::kFloatTypes) {
        KernelShapes layer = kLayer, odd = kOddLayer;
        layer.dtype = odd.dtype = dtype;
        add_layer(context, layer, "matmul decode", makers);
        for (const int64_t tokens : {4, 16, 64, 256}) {
            layer.prefill_tokens = tokens;
            add_layer(context, layer, "matmul prefill qkv", makers);
        }
        layer.prefill_tokens = 64;
        add_layer(context, layer, "matmul prefill down", makers);
        add_layer(context, layer, "attention", makers);
        add_layer(context, odd, "matmul", makers);
        add_layer(context, odd, "attention", makers);
    }
    for (const char* name :
         {"W4A16", "W8A16", "W4A8", "W8A8", "FP8", "2:4", "rms_norm", "rope", "gated_activation"}) {
        add_layer(context, kLayer, name, makers);
        add_layer(context, kOddLayer, name, makers);
    }
}

// Rows of float32 and a vector of weights, as most ops take.
struct Rows {
    int64_t tokens, width;
    std::vector<float> x, out;
    Buffer weight;

    Rows(int64_t tokens_, int64_t width_)
        : tokens(tokens_),
          width(width_),
          x(Random(1).values(tokens * width)),
          out(Random(2).values(tokens * width)),
          weight(DType::bf16, Random(3).values(width)) {}
    TensorView x_view() { return ::testing::view(x, {tokens, width}); }
    TensorView out_view() { return ::testing::view(out, {tokens, width}); }
    TensorView weight_view() { return weight.view({width}); }
};

// body(context, rows) on 16 rows of 500.
template <typename Body>
void add_rows(const Context& context, const std::string& name, std::vector<CaseMaker>& makers,
              Body body) {
    makers.push_back([=, &context]() -> CountedCase {
        const auto rows = std::make_shared<Rows>(16, 500);
        return {name + " 16 x 500", {}, [=, &context] { body(context, *rows); }};
    });
}

void add_row_ops(const Context& context, std::vector<CaseMaker>& makers) {
    add_rows(context, "layer_norm", makers, [](const Context& where, Rows& rows) {
        ops::layer_norm(where, rows.x_view(), rows.weight_view(), rows.weight_view(), 1e-5f,
                        rows.out_view());
    });
    add_rows(context, "add", makers, [](const Context& where, Rows& rows) {
        ops::add(where, rows.x_view(), rows.out_view());
    });
    add_rows(context, "soft_cap", makers,
             [](const Context& where, Rows& rows) { ops::soft_cap(where, 30.0f, rows.x_view()); });
    using Named = std::pair<const char*, ops::Activation>;
    for (const auto& [name, function] : {Named{"activation silu", ops::Activation::silu},
                                         Named{"activation gelu", ops::Activation::gelu},
                                         Named{"activation gelu_tanh", ops::Activation::gelu_tanh},
                                         Named{"activation relu", ops::Activation::relu}}) {
        add_rows(context, name, makers, [function = function](const Context& where, Rows& rows) {
            ops::activation(where, function, rows.x_view(), rows.out_view());
        });
    }
}

void add_conversions(const Context& context, std::vector<CaseMaker>& makers) {
    for (const DType dtype : ::testing::kFloatTypes) {
        makers.push_back([=, &context]() -> CountedCase {
            const auto narrow = std::make_shared<Buffer>(dtype, Random(1).values(4003));
            const auto wide = std::make_shared<Buffer>(DType::f32, Random(1).values(4003));
            return {
                fmt::format("convert 4003 to and from {}", dtype_name(dtype)), {}, [=, &context] {
                    ops::convert(context, wide->view({4003}), narrow->view({4003}));
                    ops::convert(context, narrow->view({4003}), wide->view({4003}));
                }};
        });
        makers.push_back([=, &context]() -> CountedCase {
            const auto table = std::make_shared<Buffer>(dtype, Random(1).values(int64_t{50} * 333));
            const auto rows = std::make_shared<Rows>(16, 333);
            const auto ids = std::make_shared<std::vector<int32_t>>(16, 7);
            return {fmt::format("embedding 16 x 333 {}", dtype_name(dtype)), {}, [=, &context] {
                        ops::embedding(context, table->view({50, 333}), ::testing::view(*ids, {16}),
                                       1.5f, rows->out_view());
                    }};
        });
    }
    makers.push_back([&context]() -> CountedCase {
        const auto rows = std::make_shared<Rows>(16, 500);
        const auto ids = std::make_shared<std::vector<int32_t>>(16, 7);
        return {"gather_rows 16 x 500", {}, [=, &context] {
                    ops::gather_rows(context, rows->x_view(), ::testing::view(*ids, {16}),
                                     rows->out_view());
                }};
    });
}

// Keys and values of a step, and the storage they are written to.
struct KvStep {
    static constexpr int64_t kHeads = 2, kDim = 64, kBlock = 16, kBlocks = 8;
    int64_t tokens;
    std::vector<float> rows;
    std::vector<int64_t> slots;
    Buffer keys, values;

    KvStep(DType dtype, int64_t tokens_)
        : tokens(tokens_),
          rows(Random(1).values(tokens * kHeads * kDim)),
          keys(dtype, kBlocks * kHeads * kDim * kBlock),
          values(dtype, kBlocks * kHeads * kDim * kBlock) {
        for (int64_t t = 0; t < tokens; ++t) slots.push_back(t * 5 % (kBlocks * kBlock));
    }
    void write(const Context& context) {
        const TensorView view = ::testing::view(rows, {tokens, kHeads, kDim});
        ops::write_kv(context, view, view, ::testing::view(slots, {tokens}),
                      keys.view({kBlocks, kHeads, kDim, kBlock}),
                      values.view({kBlocks, kHeads, kBlock, kDim}));
    }
};

void add_cache_ops(const Context& context, std::vector<CaseMaker>& makers) {
    for (const DType dtype : ::testing::kFloatTypes) {
        for (const int64_t tokens : {1, 64}) {
            makers.push_back([=, &context]() -> CountedCase {
                const auto step = std::make_shared<KvStep>(dtype, tokens);
                return {fmt::format("write_kv {} x 2 x 64 {}", tokens, dtype_name(dtype)),
                        {},
                        [=, &context] { step->write(context); }};
            });
        }
    }
    makers.push_back([&context]() -> CountedCase {
        const auto step = std::make_shared<KvStep>(DType::bf16, 1);
        const auto pairs = std::make_shared<std::vector<int32_t>>(std::vector{0, 3, 5, 1, 2, 7});
        return {"copy_blocks 3 x 2048", {}, [=, &context] {
                    const TensorView blocks = step->keys.view({KvStep::kBlocks, 2048});
                    ops::copy_blocks(context, ::testing::view(*pairs, {3, 2}), blocks, blocks);
                }};
    });
}

// What attention can beside the plain forms of a decoder layer.
void add_attention_forms(const Context& context, std::vector<CaseMaker>& makers) {
    using Options = ops::PagedAttentionOptions;
    const auto add = [&](const char* name, const Options& options, int64_t length, int64_t count) {
        makers.push_back([=, &context]() -> CountedCase {
            const AttentionShape shape{8, 2, 64, DType::bf16};
            const ::testing::AttentionText text(shape, length, 1);
            const auto batch = std::make_shared<::testing::AttentionBatch>(
                context, shape, 16, options, std::vector{AttentionPart{&text, length, count}});
            return {fmt::format("attention {} {} of {}, 8/2 x 64", name, count, length),
                    {},
                    [=, &context] { batch->run(context); }};
        });
    };
    add("window", {.scale = 0.125f, .window = 100}, 300, 32);
    add("soft cap", {.scale = 0.125f, .soft_cap = 30.0f}, 200, 16);
    add("both ways", {.scale = 0.125f, .causal = false}, 100, 100);
    add("chunk at depth", {.scale = 0.125f}, 500, 20);
    add("decode at depth", {.scale = 0.125f}, 2000, 1);
}

void add_rope_angles(const Context& context, std::vector<CaseMaker>& makers) {
    makers.push_back([&context]() -> CountedCase {
        const auto cosines = std::make_shared<Rows>(16, 32), sines = std::make_shared<Rows>(16, 32);
        const auto positions = std::make_shared<std::vector<int32_t>>();
        for (int32_t t = 0; t < 16; ++t) positions->push_back(100 * t);
        const auto frequencies = std::make_shared<std::vector<float>>();
        for (int i = 0; i < 32; ++i) frequencies->push_back(1.0f / static_cast<float>(1 + i * i));
        return {"rope_angles 16 x 32", {}, [=, &context] {
                    ops::rope_cos_sin(context, ::testing::view(*positions, {16}),
                                      ::testing::view(*frequencies, {32}), 1.0f,
                                      cosines->out_view(), sines->out_view());
                }};
    });
}

void add_matmul_forms(const Context& context, std::vector<CaseMaker>& makers) {
    makers.push_back([&context]() -> CountedCase {
        const auto x = std::make_shared<Rows>(16, 500), y = std::make_shared<Rows>(16, 300);
        const auto weight =
            std::make_shared<Buffer>(DType::bf16, Random(1).values(int64_t{300} * 500));
        return {"matmul with bias, accumulated 16 x 500 x 300 bfloat16", {}, [=, &context] {
                    ops::matmul(context, x->x_view(), weight->view({300, 500}), y->weight_view(),
                                DType::bf16, ops::MatmulOutput::accumulate, y->out_view());
                }};
    });
}

}  // namespace

void add_op_cases(const Context& context, std::vector<CaseMaker>& makers) {
    add_layers(context, makers);
    add_matmul_forms(context, makers);
    add_attention_forms(context, makers);
    add_row_ops(context, makers);
    add_rope_angles(context, makers);
    add_conversions(context, makers);
    add_cache_ops(context, makers);
}

}  // namespace nvllm::counts
