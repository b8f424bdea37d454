// A call of every op, on operands in memory or without any, that tells whether a dry run counts
// what the op takes.
//
// A call is a function with the op's name: an op of the list without one does not compile.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/host/dry_run.h"
#include "kernels/ops/op_list.h"
#include "testing.h"

namespace testing {

// Operands of a context: in memory of its device, or, in a dry run, nowhere.
class Operands {
  public:
    explicit Operands(const nvllm::Context& context)
        : context_(context),
          memory_(context.is_dry_run() ? nvllm::ScratchArena::of_dry_run()
                                       : nvllm::ScratchArena(0, nvllm::ComputeDevice(context))) {}

    const nvllm::Context& context() const { return context_; }
    nvllm::TensorView zeros(nvllm::DType dtype, std::initializer_list<int64_t> shape) {
        nvllm::TensorView view(nullptr, dtype, shape, context_.device);
        const size_t bytes = static_cast<size_t>(view.numel()) * dtype_bytes(dtype);
        view.data = memory_.take(bytes);
        if (!context_.is_dry_run()) {
            nvllm::ComputeDevice(context_).clear(context_.stream, view.data, bytes);
        }
        return view;
    }
    nvllm::TensorView activations(std::initializer_list<int64_t> shape) {
        return zeros(context_.activations, shape);
    }
    nvllm::TensorView ints(std::vector<int32_t> values) {
        const nvllm::TensorView view = zeros(nvllm::DType::i32, {std::ssize(values)});
        if (!context_.is_dry_run()) {
            nvllm::ComputeDevice(context_).copy_in(context_.stream, view.data, values.data(),
                                                   values.size() * sizeof(int32_t));
        }
        return view;
    }
    nvllm::TensorView ascending(int64_t count) {
        std::vector<int32_t> values(static_cast<size_t>(count));
        std::iota(values.begin(), values.end(), 0);
        return ints(values);
    }
    // Of the CPU.
    nvllm::TensorView identity(int64_t size) {
        const nvllm::TensorView view = zeros(nvllm::DType::f32, {size, size});
        for (int64_t i = 0; i < size && !context_.is_dry_run(); ++i) {
            view.as<float>()[i * (size + 1)] = 1.0f;
        }
        return view;
    }

  private:
    const nvllm::Context& context_;
    nvllm::ScratchArena memory_;
};

}  // namespace testing

namespace op_scratch_cases {

using namespace nvllm;
using testing::Operands;

constexpr int64_t kTokens = 5, kWidth = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kBlock = 16;
constexpr int64_t kExperts = 4, kChoices = 2 * kTokens, kVocab = 50;

inline void activation(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::activation(given.context(), ops::Activation::silu, x, x);
}
inline void gated_activation(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::gated_activation(given.context(), ops::Activation::silu, x, x, x);
}
inline void clamped_swiglu(Operands& given) {
    ops::clamped_swiglu(given.context(), 1.702f, 7.0f, ops::GateOrder::pairs,
                        given.activations({kTokens, 2 * kWidth}),
                        given.activations({kTokens, kWidth}));
}
inline void attention_input(Operands& given) {
    ops::AttentionInputOptions options;
    options.heads = kHeads;
    options.kv_heads = kKvHeads;
    const TensorView cache = given.activations({2, kKvHeads, kBlock, kHeadDim});
    ops::attention_input(given.context(), options,
                         given.activations({kTokens, (kHeads + 2 * kKvHeads) * kHeadDim}),
                         given.zeros(DType::i64, {kTokens}), cache, cache);
}
// Few queries of long sequences: what is kept of parts of them is the most that there may be.
inline void paged_attention(Operands& given) {
    const TensorView cache = given.activations({1, kKvHeads, kBlock, kHeadDim});
    const TensorView queries = given.activations({kTokens, kHeads, kHeadDim});
    std::vector<int32_t> lengths(kTokens, 2500);
    ops::paged_attention(given.context(), queries, cache, cache, given.ascending(kTokens + 1),
                         given.ints(lengths), given.zeros(DType::i32, {kTokens, 160}), {}, queries);
}
inline void add(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::add(given.context(), x, x);
}
inline void copy(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::copy(given.context(), x, x);
}
// One sequence of all tokens.
inline ops::StateRows state_rows(Operands& given) {
    return {given.ints({0, kTokens}), given.ints({kTokens}), given.zeros(DType::i32, {1, 1})};
}
inline void causal_conv1d(Operands& given) {
    ops::causal_conv1d(given.context(), given.activations({kTokens, kWidth}),
                       {given.zeros(DType::f32, {4, kWidth}), {}}, state_rows(given),
                       given.zeros(DType::f32, {1, 3, kWidth}),
                       given.activations({kTokens, kWidth}));
}
inline void l2_norm(Operands& given) {
    const TensorView x = given.activations({kTokens, kHeads, kHeadDim});
    ops::l2_norm(given.context(), x, 1e-6f, 1.0f, x);
}
inline void state_gates(Operands& given) {
    const TensorView x = given.activations({kTokens, kHeads});
    const TensorView vector = given.zeros(DType::f32, {kHeads});
    const TensorView gates = given.zeros(DType::f32, {kTokens, kHeads});
    ops::state_gates(given.context(), x, x, {vector, vector}, gates, gates);
}
inline void linear_attention(Operands& given) {
    const TensorView keys = given.activations({kTokens, kKvHeads, kHeadDim});
    const TensorView values = given.activations({kTokens, kHeads, kHeadDim});
    const TensorView gates = given.zeros(DType::f32, {kTokens, kHeads});
    ops::linear_attention(given.context(), {keys, keys, values, gates, gates, true, {}},
                          state_rows(given),
                          given.zeros(DType::f32, {1, kHeads, kHeadDim, kHeadDim}), values);
}
inline void soft_cap(Operands& given) {
    ops::soft_cap(given.context(), 30.0f, given.activations({kTokens, kWidth}));
}
inline void scale(Operands& given) {
    ops::scale(given.context(), 0.5f, given.activations({kTokens, kWidth}));
}
inline void scale_rows(Operands& given) {
    ops::scale_rows(given.context(), given.zeros(DType::f32, {kTokens}),
                    given.activations({kTokens, kWidth}));
}
// Rows of no adapter: what is taken does not depend on it.
inline void lora_shrink(Operands& given) {
    static const ops::LoraPair no_pairs[3];
    ops::lora_shrink(given.context(), given.activations({kTokens, kWidth}),
                     given.zeros(DType::i32, {kTokens}),
                     {.pairs = no_pairs, .slots = 3, .parts = 1, .max_rank = 4},
                     given.zeros(DType::f32, {kTokens, 1, 4}));
}
inline void lora_expand(Operands& given) {
    static const ops::LoraPair no_pairs[3];
    ops::lora_expand(given.context(), given.zeros(DType::f32, {kTokens, 1, 4}),
                     given.zeros(DType::i32, {kTokens}),
                     {.pairs = no_pairs, .slots = 3, .parts = 1, .max_rank = 4},
                     given.activations({kTokens, kWidth}));
}
inline void lora_expert_slots(Operands& given) {
    ops::lora_expert_slots(given.context(), given.zeros(DType::i32, {kTokens}),
                           given.zeros(DType::i32, {kTokens, 2}), given.ascending(kChoices),
                           kExperts, given.zeros(DType::i32, {kChoices}));
}
inline void lora_select(Operands& given) {
    ops::lora_select(given.context(), given.activations({kTokens, kWidth}),
                     given.zeros(DType::i32, {kTokens}), 1, given.activations({kTokens, kWidth}));
}
inline void row_maxima(Operands& given) {
    ops::row_maxima(given.context(), given.activations({kTokens, kWidth}),
                    given.zeros(DType::f32, {kTokens}));
}
inline void gather_rows(Operands& given) {
    ops::gather_rows(given.context(), given.activations({kTokens, kWidth}), given.ints({0, 1}),
                     given.activations({2, kWidth}));
}
inline void convert(Operands& given) {
    ops::convert(given.context(), given.activations({kTokens, kWidth}),
                 given.zeros(DType::bf16, {kTokens, kWidth}));
}
inline void embedding(Operands& given) {
    ops::embedding(given.context(), given.zeros(DType::bf16, {kVocab, kWidth}),
                   given.ascending(kTokens), 1.0f, given.activations({kTokens, kWidth}));
}
inline void write_kv(Operands& given) {
    const TensorView cache = given.activations({2, kKvHeads, kBlock, kHeadDim});
    const TensorView x = given.activations({kTokens, kKvHeads, kHeadDim});
    ops::write_kv(given.context(), x, x, given.zeros(DType::i64, {kTokens}), cache, cache);
}
inline void copy_blocks(Operands& given) {
    const TensorView blocks = given.activations({2, kWidth});
    ops::copy_blocks(given.context(), given.ints({0, 1}).reshaped({1, 2}), blocks, blocks);
}
inline void move_slots(Operands& given) {
    const TensorView keys = given.activations({2, 1, kWidth, 4});
    const TensorView values = given.activations({2, 1, 4, kWidth});
    ops::move_slots(given.context(), given.zeros(DType::i64, {1, 2}), keys, values);
}
inline void add_weighted_rows(Operands& given) {
    ops::add_weighted_rows(given.context(), given.activations({2, kWidth}), given.ints({0, 1}),
                           given.zeros(DType::f32, {2}), given.activations({kTokens, kWidth}));
}
inline void rms_norm(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::rms_norm(given.context(), x, given.zeros(DType::bf16, {kWidth}), {}, x);
}
inline void layer_norm(Operands& given) {
    const TensorView x = given.activations({kTokens, kWidth});
    ops::layer_norm(given.context(), x, given.zeros(DType::bf16, {kWidth}), {}, 1e-5f, x);
}
inline void rope_cos_sin(Operands& given) {
    ops::rope_cos_sin(given.context(), given.ascending(kTokens),
                      given.zeros(DType::f32, {kHeadDim / 2}), 1.0f,
                      given.zeros(DType::f32, {kTokens, kHeadDim / 2}),
                      given.zeros(DType::f32, {kTokens, kHeadDim / 2}), {});
}
inline void rope(Operands& given) {
    ops::rope(given.context(), given.zeros(DType::f32, {kTokens, kHeadDim / 2}),
              given.zeros(DType::f32, {kTokens, kHeadDim / 2}), ops::RopePairs::halves,
              given.activations({kTokens, kHeads, kHeadDim}));
}
inline void position_factors(Operands& given) {
    ops::position_factors(given.context(), given.ascending(kTokens), 0.1f, 2, 0,
                          given.zeros(DType::f32, {kTokens}));
}
inline void change_scores(Operands& given) {
    ops::change_scores(given.context(), {}, given.zeros(DType::f32, {kTokens, kVocab}));
}
inline void sample(Operands& given) {
    ops::sample(given.context(), given.zeros(DType::f32, {kTokens, kVocab}),
                given.zeros(DType::u8, {kTokens, sizeof(ops::SamplingRow)}),
                given.zeros(DType::i32, {kTokens}));
}
inline void logprobs(Operands& given) {
    ops::logprobs(given.context(), given.zeros(DType::f32, {kTokens, kVocab}),
                  given.ascending(kTokens),
                  {given.zeros(DType::f32, {kTokens}), given.zeros(DType::i32, {kTokens}),
                   given.zeros(DType::i32, {kTokens, 3}), given.zeros(DType::f32, {kTokens, 3})});
}
inline void route(Operands& given) {
    ops::route(given.context(), given.zeros(DType::f32, {kTokens, kExperts}), true,
               given.zeros(DType::i32, {kTokens, 2}), given.zeros(DType::f32, {kTokens, 2}));
}
inline void sort_by_expert(Operands& given) {
    ops::sort_by_expert(given.context(), given.zeros(DType::i32, {kTokens, 2}),
                        given.zeros(DType::i32, {kExperts + 1}),
                        given.zeros(DType::i32, {kChoices}), given.zeros(DType::i32, {kChoices}));
}
// All rows go to one expert, which takes the most.
inline void grouped_matmul(Operands& given) {
    constexpr auto kAll = static_cast<int32_t>(kChoices);
    ops::grouped_matmul(given.context(), given.activations({kChoices, kWidth}),
                        given.ints({0, kAll, kAll, kAll, kAll}),
                        given.zeros(DType::bf16, {kExperts, 24, kWidth}), DType::bf16,
                        given.activations({kChoices, 24}));
}
inline void add_expert_outputs(Operands& given) {
    ops::add_expert_outputs(given.context(), given.activations({kChoices, kWidth}),
                            given.ascending(kChoices), given.zeros(DType::f32, {kTokens, 2}),
                            ops::MatmulOutput::overwrite, given.activations({kTokens, kWidth}));
}
inline void fill_random(Operands& given) {
    ops::fill_random(given.context(), 7, given.zeros(DType::bf16, {64}),
                     given.zeros(DType::bf16, {kTokens, kWidth}));
}

// For few rows and for many, which other kernels multiply.
inline void matmul(Operands& given) {
    for (const int64_t tokens : {3, 200}) {
        ops::matmul(given.context(), given.activations({tokens, 96}),
                    given.zeros(DType::bf16, {40, 96}), {}, DType::bf16,
                    ops::MatmulOutput::overwrite, given.activations({tokens, 40}));
    }
}
inline void fused_matmul(Operands& given) {
    const ops::MatmulWeight weights[] = {{given.zeros(DType::bf16, {40, 96}), {}},
                                         {given.zeros(DType::bf16, {24, 96}), {}}};
    ops::fused_matmul(given.context(), given.activations({200, 96}), weights, DType::bf16,
                      ops::MatmulOutput::overwrite, given.activations({200, 64}));
}

// Questions, which take no context.
inline void can_multiply_quantized(Operands&) {}
inline void quantized_weight_bytes(Operands&) {}

inline ops::QuantizedLayout quantized_layout(ops::WeightFormat code) {
    return {code, 48, 128, 64, false, DType::f32};
}
inline TensorView packed_room(Operands& given, const ops::QuantizedLayout& layout) {
    const ComputeTarget target{given.context().backend, given.context().activations};
    const size_t bytes = ops::quantized_weight_bytes(layout, target);
    return given.zeros(DType::u8, {static_cast<int64_t>(bytes)});
}
inline void pack_weight(Operands& given) {
    const ops::QuantizedLayout layout = quantized_layout(ops::WeightFormat::int8);
    ops::pack_weight(given.context(), layout,
                     {given.zeros(DType::i8, {48, 128}), given.zeros(DType::f32, {48, 2}), {}, {}},
                     packed_room(given, layout));
}
// In each way that x may be rounded; rows few and many.
inline void matmul_quantized(Operands& given) {
    const ComputeTarget target{given.context().backend, given.context().activations};
    for (const int64_t tokens : {3, 200}) {
        for (const auto code : {ops::WeightFormat::int4, ops::WeightFormat::int8}) {
            for (const auto rounding :
                 {ops::ActivationFormat::compute_type, ops::ActivationFormat::int8,
                  ops::ActivationFormat::float8}) {
                ops::QuantizedWeight weight;
                weight.layout = quantized_layout(code);
                weight.activations.code = rounding;
                if (!ops::can_multiply_quantized(weight.layout, weight.activations, target)) {
                    continue;
                }
                weight.packed = packed_room(given, weight.layout);
                ops::matmul_quantized(given.context(), given.activations({tokens, 128}), weight, {},
                                      DType::bf16, ops::MatmulOutput::overwrite,
                                      given.activations({tokens, 48}));
            }
        }
    }
}

constexpr int64_t kMatrix = 300;  // more than one block of the factors

inline void add_gram(Operands& given) {
    for (const DType type : {DType::f32, DType::bf16}) {
        ops::add_gram(given.context(), given.activations({70, kMatrix}), type,
                      given.zeros(DType::f32, {kMatrix, kMatrix}));
    }
}
inline void mirror_lower(Operands& given) {
    ops::mirror_lower(given.context(), given.identity(kMatrix));
}
inline void cholesky(Operands& given) {
    CHECK(ops::cholesky(given.context(), given.identity(kMatrix)));
}
inline void invert_lower(Operands& given) {
    ops::invert_lower(given.context(), given.identity(kMatrix));
}
inline void inverse_cholesky(Operands& given) {
    CHECK(ops::inverse_cholesky(given.context(), given.identity(kMatrix)));
}

}  // namespace op_scratch_cases
