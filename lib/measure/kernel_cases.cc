// Operands and calls.
#include "lib/measure/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "kernels/view.h"
#include "lib/measure/random_source.h"

namespace nvllm {
namespace {

// Memory on a cache line's border.
class Operand {
  public:
    Operand(DType dtype, int64_t count, uint64_t seed) : dtype_(dtype) {
        const size_t bytes = static_cast<size_t>(count) * dtype_bytes(dtype);
        memory_.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
        if (memory_ == nullptr) throw std::bad_alloc();
        fill(count, seed);
    }
    void* data() const { return memory_.get(); }
    DType dtype() const { return dtype_; }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };

    // Numbers between -1 and 1 that need not be random, only ordinary.
    void fill(int64_t count, uint64_t seed) {
        uint64_t state = seed * 2 + 1;
        for (int64_t i = 0; i < count; ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            store(i, static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1.0p-31f);
        }
    }
    void store(int64_t i, float value) const {
        if (dtype_ == DType::f32) {
            static_cast<float*>(data())[i] = value;
        } else if (dtype_ == DType::f16) {
            static_cast<Float16*>(data())[i] = Float16(value);
        } else {
            static_cast<BFloat16*>(data())[i] = BFloat16(value);
        }
    }

    DType dtype_;
    std::unique_ptr<void, Free> memory_;
};

// As many copies of an operand as make up the working set; one at least.
class Copies {
  public:
    Copies(DType dtype, int64_t count, const KernelShapes& shapes) {
        const double bytes = static_cast<double>(count) * static_cast<double>(dtype_bytes(dtype));
        const double wanted = static_cast<double>(shapes.working_set_bytes) / bytes;
        const auto number = static_cast<size_t>(std::clamp(std::ceil(wanted), 1.0, 65536.0));
        for (size_t i = 0; i < number; ++i) {
            operands_.push_back(std::make_shared<Operand>(dtype, count, shapes.seed + i));
        }
    }
    void* at(size_t call) const { return operands_[call % operands_.size()]->data(); }

  private:
    std::vector<std::shared_ptr<Operand>> operands_;
};

double size_of(DType dtype) { return static_cast<double>(dtype_bytes(dtype)); }

KernelCase matmul_case(const Context& context, const KernelShapes& shapes, int64_t tokens,
                       int64_t in, int64_t out) {
    const DType dtype = shapes.dtype;
    KernelCase made;
    made.shape = fmt::format("{} x {} x {} {}", tokens, in, out, dtype_name(dtype));
    const double products = static_cast<double>(tokens * in) * static_cast<double>(out);
    made.flops = 2.0 * products;
    made.bytes = static_cast<double>(in * out) * size_of(dtype) +
                 static_cast<double>(tokens * (in + out)) * 4.0;
    const Copies weights(dtype, in * out, shapes);
    const auto x = std::make_shared<Operand>(DType::f32, tokens * in, shapes.seed);
    const auto y = std::make_shared<Operand>(DType::f32, tokens * out, shapes.seed);
    made.run = [=, &context](size_t call) {
        ops::matmul(context, {x->data(), DType::f32, {tokens, in}},
                    {weights.at(call), dtype, {out, in}}, {}, dtype, ops::MatmulOutput::overwrite,
                    {y->data(), DType::f32, {tokens, out}});
    };
    return made;
}

KernelCase norm_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, hidden = shapes.hidden;
    const auto values = static_cast<double>(tokens * hidden);
    KernelCase made{
        "rms_norm", fmt::format("{} x {}", tokens, hidden), values * 8.0, values * 4.0, {}};
    const Copies x(DType::f32, tokens * hidden, shapes);
    const auto weight = std::make_shared<Operand>(shapes.dtype, hidden, shapes.seed);
    made.run = [=, &context, dtype = shapes.dtype](size_t call) {
        const TensorView view(x.at(call), DType::f32, {tokens, hidden});
        ops::rms_norm(context, view, {weight->data(), dtype, {hidden}}, {}, view);
    };
    return made;
}

KernelCase rope_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, heads = shapes.heads, dim = shapes.head_dim;
    const auto values = static_cast<double>(tokens * heads * dim);
    KernelCase made{
        "rope", fmt::format("{} x {} x {}", tokens, heads, dim), values * 8.0, values * 3.0, {}};
    const Copies x(DType::f32, tokens * heads * dim, shapes);
    const auto angles = std::make_shared<Operand>(DType::f32, tokens * dim / 2, shapes.seed);
    made.run = [=, &context](size_t call) {
        const ConstTensorView view(angles->data(), DType::f32, {tokens, dim / 2});
        ops::rope(context, view, view, {x.at(call), DType::f32, {tokens, heads, dim}});
    };
    return made;
}

KernelCase activation_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, width = shapes.intermediate;
    const auto values = static_cast<double>(tokens * width);
    // silu(gate) * up: negation, exponential, sum, quotient, product.
    KernelCase made{"", fmt::format("{} x {}", tokens, width), values * 12.0, values * 5.0, {}};
    const Copies both(DType::f32, tokens * width * 2, shapes);
    made.run = [=, &context](size_t call) {
        const TensorView pair(both.at(call), DType::f32, {tokens, 2 * width});
        const TensorView gate = pair.columns(0, width);
        ops::gated_activation(context, ops::Activation::silu, gate, pair.columns(width, width),
                              gate);
    };
    return made;
}

// Sequences of `length` cached tokens, of which the last `count` are computed; their blocks lie in
// order.
KernelCase attention_case(const Context& context, const KernelShapes& shapes, int64_t sequences,
                          int64_t count, int64_t length) {
    constexpr int64_t kBlock = 16;
    const int64_t blocks = (length + kBlock - 1) / kBlock, tokens = sequences * count;
    const int64_t heads = shapes.heads, kv_heads = shapes.kv_heads, dim = shapes.head_dim;
    const int64_t cached = sequences * blocks * kv_heads * kBlock * dim;
    double positions = 0.0;  // seen by all queries of a sequence
    for (int64_t i = length - count + 1; i <= length; ++i) positions += static_cast<double>(i);
    KernelCase made;
    made.shape =
        fmt::format("{} x {} of {}, {}/{} x {}", sequences, count, length, heads, kv_heads, dim);
    made.flops = 4.0 * positions * static_cast<double>(sequences * heads * dim);
    made.bytes =
        2.0 * static_cast<double>(sequences * length * kv_heads * dim) * size_of(shapes.dtype) +
        static_cast<double>(tokens * heads * dim) * 8.0;
    const Copies cache(shapes.dtype, 2 * cached, shapes);
    const auto queries = std::make_shared<Operand>(DType::f32, tokens * heads * dim, shapes.seed);
    const auto out = std::make_shared<Operand>(DType::f32, tokens * heads * dim, shapes.seed);
    std::vector<int32_t> starts, lengths, tables;
    for (int64_t s = 0; s <= sequences; ++s) starts.push_back(static_cast<int32_t>(s * count));
    lengths.assign(static_cast<size_t>(sequences), static_cast<int32_t>(length));
    for (int64_t b = 0; b < sequences * blocks; ++b) tables.push_back(static_cast<int32_t>(b));
    made.run = [=, &context, dtype = shapes.dtype](size_t call) {
        auto* keys = static_cast<std::byte*>(cache.at(call));
        std::byte* values = keys + static_cast<size_t>(cached) * dtype_bytes(dtype);
        ops::paged_attention(context, {queries->data(), DType::f32, {tokens, heads, dim}},
                             {keys, dtype, {sequences * blocks, kv_heads, dim, kBlock}},
                             {values, dtype, {sequences * blocks, kv_heads, kBlock, dim}},
                             {starts.data(), DType::i32, {sequences + 1}},
                             {lengths.data(), DType::i32, {sequences}},
                             {tables.data(), DType::i32, {sequences, blocks}},
                             {.scale = 1.0f / std::sqrt(static_cast<float>(dim))},
                             {out->data(), DType::f32, {tokens, heads, dim}});
    };
    return made;
}

}  // namespace

std::vector<KernelCaseMaker> kernel_cases(const Context& context, const KernelShapes& shapes) {
    std::vector<KernelCaseMaker> makers;
    const auto add = [&](const char* name, auto make) {
        makers.push_back({name, [=, &context](const std::string& own_name) {
                              KernelCase made = make(context, shapes);
                              made.name = own_name;
                              return made;
                          }});
    };
    const auto matmul = [](int64_t tokens, int64_t in, int64_t out) {
        return [=](const Context& where, const KernelShapes& sizes) {
            return matmul_case(where, sizes, tokens, in, out);
        };
    };
    const auto attention = [](int64_t sequences, int64_t count, int64_t length) {
        return [=](const Context& where, const KernelShapes& sizes) {
            return attention_case(where, sizes, sequences, count, length);
        };
    };
    const int64_t qkv = (shapes.heads + 2 * shapes.kv_heads) * shapes.head_dim;
    const int64_t hidden = shapes.hidden, width = shapes.intermediate;
    const int64_t tokens = shapes.prefill_tokens;
    add("matmul decode qkv", matmul(1, hidden, qkv));
    add("matmul decode gate_up", matmul(1, hidden, 2 * width));
    add("matmul decode down", matmul(1, width, hidden));
    add("matmul prefill qkv", matmul(tokens, hidden, qkv));
    add("matmul prefill gate_up", matmul(tokens, hidden, 2 * width));
    add("matmul prefill down", matmul(tokens, width, hidden));
    add("rms_norm", norm_case);
    add("rope", rope_case);
    add("gated_activation silu", activation_case);
    add("attention decode", attention(shapes.decode_sequences, 1, shapes.context));
    add("attention prefill", attention(1, tokens, tokens));
    return makers;
}

}  // namespace nvllm
