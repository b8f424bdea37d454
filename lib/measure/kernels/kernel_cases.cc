// Operands and calls.
#include "lib/measure/kernels/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/device.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/backend_ops.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/lora.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_quantized.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "kernels/view.h"

namespace nvllm {
namespace {

// Numbers between -1 and 1 that need not be random, only ordinary.
template <typename T>
std::vector<T> ordinary_values(int64_t count, uint64_t seed) {
    std::vector<T> values;
    values.reserve(static_cast<size_t>(count));
    uint64_t state = seed * 2 + 1;
    for (int64_t i = 0; i < count; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values.push_back(T(static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1.0p-31f));
    }
    return values;
}

// Values in memory of a context's device.
class Operand {
  public:
    template <typename T>
    Operand(const Context& context, DType dtype, const std::vector<T>& values)
        : dtype_(dtype), device_(context.device) {
        const ComputeDevice device(context);
        const size_t bytes = values.size() * sizeof(T);
        memory_ = device.allocate(bytes);
        device.copy_in(context.stream, memory_.get(), values.data(), bytes);
    }

    // What lies from value `first` on.
    TensorView view(std::initializer_list<int64_t> shape, int64_t first = 0) const {
        return {memory_.get() + static_cast<size_t>(first) * dtype_bytes(dtype_), dtype_, shape,
                device_};
    }

  private:
    DType dtype_;
    Device device_;
    DeviceMemory memory_;
};
using SharedOperand = std::shared_ptr<const Operand>;

// `number` operands of the same ordinary values.
std::vector<SharedOperand> make_operands(const Context& context, DType dtype, int64_t count,
                                         uint64_t seed, size_t number) {
    std::vector<SharedOperand> operands;
    const auto add = [&](const auto& values) {
        for (size_t i = 0; i < number; ++i) {
            operands.push_back(std::make_shared<const Operand>(context, dtype, values));
        }
    };
    if (dtype == DType::f32) {
        add(ordinary_values<float>(count, seed));
    } else if (dtype == DType::f16) {
        add(ordinary_values<Float16>(count, seed));
    } else {
        add(ordinary_values<BFloat16>(count, seed));
    }
    return operands;
}

SharedOperand make_operand(const Context& context, DType dtype, int64_t count, uint64_t seed) {
    return make_operands(context, dtype, count, seed, 1).front();
}

SharedOperand make_indices(const Context& context, const std::vector<int32_t>& values) {
    return std::make_shared<const Operand>(context, DType::i32, values);
}

// As many copies of an operand as make up the working set; one at least.
class Copies {
  public:
    Copies(const Context& context, DType dtype, int64_t count, const KernelShapes& shapes)
        : operands_(
              make_operands(context, dtype, count, shapes.seed,
                            number(static_cast<uint64_t>(count) * dtype_bytes(dtype), shapes))) {}
    explicit Copies(std::vector<SharedOperand> operands) : operands_(std::move(operands)) {}

    static size_t number(uint64_t bytes, const KernelShapes& shapes) {
        const uint64_t wanted = (shapes.working_set_bytes + bytes - 1) / bytes;
        return static_cast<size_t>(std::clamp<uint64_t>(wanted, 1, 65536));
    }
    const Operand& at(size_t call) const { return *operands_[call % operands_.size()]; }
    size_t size() const { return operands_.size(); }

  private:
    std::vector<SharedOperand> operands_;
};

double size_of(DType dtype) { return static_cast<double>(dtype_bytes(dtype)); }

KernelCase matmul_case(const Context& context, const KernelShapes& shapes, int64_t tokens,
                       int64_t in, int64_t out) {
    const DType dtype = shapes.dtype, activations = context.activations;
    KernelCase made;
    made.shape = fmt::format("{} x {} x {} {}", tokens, in, out, dtype_name(dtype));
    const double products = static_cast<double>(tokens * in) * static_cast<double>(out);
    made.flops = 2.0 * products;
    made.bytes = static_cast<double>(in * out) * size_of(dtype) +
                 static_cast<double>(tokens * (in + out)) * size_of(activations);
    const Copies weights(context, dtype, in * out, shapes);
    const auto x = make_operand(context, activations, tokens * in, shapes.seed);
    const auto y = make_operand(context, activations, tokens * out, shapes.seed);
    made.run = [=, &context](size_t call) {
        ops::matmul(context, x->view({tokens, in}), weights.at(call).view({out, in}), {}, dtype,
                    ops::MatmulOutput::overwrite, y->view({tokens, out}));
    };
    return made;
}

ComputeTarget target_of(const Context& context) { return {context.backend, context.activations}; }

// A scheme of weights and activations, by the name that users know.
struct QuantizedKind {
    const char* name;
    ops::WeightFormat weights;
    int64_t group_size;  // 0: whole rows
    ops::ActivationFormat activations;
};

constexpr auto kQuantizedKinds = std::to_array<QuantizedKind>({
    {"W4A16", ops::WeightFormat::int4, 128, ops::ActivationFormat::compute_type},
    {"W8A16", ops::WeightFormat::int8, 0, ops::ActivationFormat::compute_type},
    {"W4A8", ops::WeightFormat::int4, 128, ops::ActivationFormat::int8},
    {"W8A8", ops::WeightFormat::int8, 0, ops::ActivationFormat::int8},
    {"FP8", ops::WeightFormat::float8, 0, ops::ActivationFormat::float8},
    {"2:4", ops::WeightFormat::sparse_bfloat16, 0, ops::ActivationFormat::compute_type},
});

ops::QuantizedLayout layout_of(const QuantizedKind& kind, int64_t in, int64_t out) {
    return {.code = kind.weights,
            .out = out,
            .in = in,
            .group_size = kind.group_size > 0 && in % kind.group_size == 0 ? kind.group_size : in};
}

SharedOperand plain_codes(const Context& context, const ops::QuantizedLayout& layout,
                          const KernelShapes& shapes) {
    const int64_t count = layout.out * layout.in;
    if (is_sparse(layout.code)) {
        return make_operand(context, ops::plain_type(layout.code), count / 2, shapes.seed);
    }
    std::vector<int8_t> codes;
    for (int64_t i = 0; i < count; ++i) codes.push_back(static_cast<int8_t>(i * 7 % 15 - 7));
    return std::make_shared<const Operand>(context, DType::i8, codes);
}

// Two of each four, in places that change.
SharedOperand kept_places(const Context& context, const ops::QuantizedLayout& layout) {
    constexpr std::array<uint8_t, 6> pairs = {3, 5, 6, 9, 10, 12};
    std::vector<uint8_t> places;
    for (int64_t i = 0; i < layout.out * ((layout.in + 7) / 8); ++i) {
        const auto at = static_cast<size_t>(i);
        places.push_back(static_cast<uint8_t>(pairs[at % 6] | pairs[at / 6 % 6] << 4));
    }
    return std::make_shared<const Operand>(context, DType::u8, places);
}

// Packed matrices, all of the same codes; scales are 1.
Copies packed_copies(const Context& context, const ops::QuantizedLayout& layout,
                     const KernelShapes& shapes) {
    const size_t bytes = ops::quantized_weight_bytes(layout, target_of(context));
    const bool sparse = is_sparse(layout.code);
    const auto count = static_cast<size_t>(layout.out * layout.groups());
    const SharedOperand codes = plain_codes(context, layout, shapes);
    const SharedOperand places = sparse ? kept_places(context, layout) : nullptr;
    const Operand scales(context, DType::f32, std::vector<float>(count, 1.0f));
    ops::UnpackedQuantizedWeight weight;
    weight.codes = codes->view({layout.out, sparse ? layout.in / 2 : layout.in});
    weight.scales = scales.view({layout.out, layout.groups()});
    if (sparse) weight.places = places->view({layout.out, (layout.in + 7) / 8});
    const std::vector<uint8_t> room(bytes);
    std::vector<SharedOperand> packed;
    for (size_t i = 0; i < Copies::number(bytes, shapes); ++i) {
        packed.push_back(std::make_shared<const Operand>(context, DType::u8, room));
        ops::pack_weight(context, layout, weight,
                         packed.back()->view({static_cast<int64_t>(bytes)}));
    }
    return Copies(std::move(packed));
}

KernelCase quantized_case(const Context& context, const KernelShapes& shapes,
                          const QuantizedKind& kind, int64_t tokens, int64_t in, int64_t out) {
    const ops::QuantizedLayout layout = layout_of(kind, in, out);
    const auto bytes =
        static_cast<int64_t>(ops::quantized_weight_bytes(layout, target_of(context)));
    KernelCase made;
    made.shape = fmt::format("{} x {} x {} {}", tokens, in, out, kind.name);
    const double terms = is_sparse(layout.code) ? 0.5 : 1.0;  // of a sum, that are multiplied
    made.flops = 2.0 * terms * static_cast<double>(tokens * in) * static_cast<double>(out);
    made.bytes = static_cast<double>(bytes) +
                 static_cast<double>(tokens * (in + out)) * size_of(context.activations);
    made.integers = kind.activations == ops::ActivationFormat::int8;
    const Copies weights = packed_copies(context, layout, shapes);
    const auto x = make_operand(context, context.activations, tokens * in, shapes.seed);
    const auto y = make_operand(context, context.activations, tokens * out, shapes.seed);
    made.run = [=, &context, type = shapes.dtype](size_t call) {
        ops::QuantizedWeight weight;
        weight.layout = layout;
        weight.activations.code = kind.activations;
        weight.packed = weights.at(call).view({bytes});
        ops::matmul_quantized(context, x->view({tokens, in}), weight, {}, type,
                              ops::MatmulOutput::overwrite, y->view({tokens, out}));
    };
    return made;
}

bool is_multiplied(const Context& context, const QuantizedKind& kind, const KernelShapes& shapes) {
    ops::ActivationRounding activations;
    activations.code = kind.activations;
    return ops::can_multiply_quantized(layout_of(kind, shapes.hidden, 2 * shapes.intermediate),
                                       activations, target_of(context));
}

KernelCase norm_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, hidden = shapes.hidden;
    const auto values = static_cast<double>(tokens * hidden);
    KernelCase made{"",
                    fmt::format("{} x {}", tokens, hidden),
                    values * 2.0 * size_of(context.activations),
                    values * 4.0,
                    {}};
    const Copies x(context, context.activations, tokens * hidden, shapes);
    const auto weight = make_operand(context, shapes.dtype, hidden, shapes.seed);
    made.run = [=, &context](size_t call) {
        const TensorView view = x.at(call).view({tokens, hidden});
        ops::rms_norm(context, view, weight->view({hidden}), {}, view);
    };
    return made;
}

KernelCase rope_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, heads = shapes.heads, dim = shapes.head_dim;
    const auto values = static_cast<double>(tokens * heads * dim);
    KernelCase made{"",
                    fmt::format("{} x {} x {}", tokens, heads, dim),
                    values * 2.0 * size_of(context.activations),
                    values * 3.0,
                    {}};
    const Copies x(context, context.activations, tokens * heads * dim, shapes);
    const auto cos_sin = make_operand(context, DType::f32, tokens * dim / 2, shapes.seed);
    made.run = [=, &context](size_t call) {
        const ConstTensorView view = cos_sin->view({tokens, dim / 2});
        ops::rope(context, view, view, ops::RopePairs::halves,
                  x.at(call).view({tokens, heads, dim}));
    };
    return made;
}

KernelCase activation_case(const Context& context, const KernelShapes& shapes) {
    const int64_t tokens = shapes.prefill_tokens, width = shapes.intermediate;
    const auto values = static_cast<double>(tokens * width);
    // silu(gate) * up: negation, exponential, sum, quotient, product.
    KernelCase made{"",
                    fmt::format("{} x {}", tokens, width),
                    values * 3.0 * size_of(context.activations),
                    values * 5.0,
                    {}};
    const Copies both(context, context.activations, tokens * width * 2, shapes);
    made.run = [=, &context](size_t call) {
        const TensorView pair = both.at(call).view({tokens, 2 * width});
        const TensorView gate = pair.columns(0, width);
        ops::gated_activation(context, ops::Activation::silu, gate, pair.columns(width, width),
                              gate);
    };
    return made;
}

// A batch whose rows have an adapter each.
KernelCase adapters_case(const Context& context, const KernelShapes& shapes, int64_t in,
                         int64_t out, bool shrinks) {
    constexpr int64_t kRank = 16;
    const int64_t rows = shapes.decode_sequences, width = shrinks ? in : out;
    const double values = static_cast<double>(rows * kRank * width);
    KernelCase made;
    made.shape = fmt::format("{} x {} x {} {}", rows, shrinks ? in : kRank, shrinks ? kRank : out,
                             dtype_name(shapes.dtype));
    made.flops = 2.0 * values;
    made.bytes = values * size_of(shapes.dtype) +
                 static_cast<double>(rows * width) * size_of(context.activations);
    const Copies matrices(context, shapes.dtype, rows * kRank * width, shapes);
    std::vector<SharedOperand> tables;
    for (size_t copy = 0; copy < matrices.size(); ++copy) {
        std::vector<ops::LoraPair> pairs;
        for (int64_t row = 0; row < rows; ++row) {
            const void* const matrix =
                matrices.at(copy).view({kRank, width}, row * kRank * width).data;
            pairs.push_back({.a = matrix, .b = matrix, .out = out, .rank = kRank});
            pairs.back().dtype = shapes.dtype;
        }
        tables.push_back(std::make_shared<const Operand>(context, DType::u8, pairs));
    }
    std::vector<int32_t> numbers(static_cast<size_t>(rows));
    std::iota(numbers.begin(), numbers.end(), 1);
    const auto slots = make_indices(context, numbers);
    const auto x = make_operand(context, context.activations, rows * width, shapes.seed);
    const auto inner = make_operand(context, DType::f32, rows * kRank, shapes.seed);
    // The tables point into the matrices.
    made.run = [=, kept = matrices, &context](size_t call) {
        const Operand& table = *tables[call % tables.size()];
        const ops::LoraLinear linear = {static_cast<const ops::LoraPair*>(table.view({1}).data),
                                        rows, 1, kRank};
        const TensorView between = inner->view({rows, 1, kRank});
        if (shrinks) {
            ops::lora_shrink(context, x->view({rows, in}), slots->view({rows}), linear, between);
        } else {
            ops::lora_expand(context, between, slots->view({rows}), linear, x->view({rows, out}));
        }
    };
    return made;
}

constexpr int64_t kBlock = 16;

// Keys lie as the device reads them.
TensorView keys_view(const Context& context, const Operand& cache, int64_t blocks, int64_t kv_heads,
                     int64_t dim) {
    return ops::keys_lie_as_values(context.device) ? cache.view({blocks, kv_heads, kBlock, dim})
                                                   : cache.view({blocks, kv_heads, dim, kBlock});
}

// Sequences of `length` cached tokens, of which the last `count` are computed; their blocks lie in
// order.
KernelCase attention_case(const Context& context, const KernelShapes& shapes, int64_t sequences,
                          int64_t count, int64_t length) {
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
        static_cast<double>(tokens * heads * dim) * 2.0 * size_of(context.activations);
    const Copies cache(context, shapes.dtype, 2 * cached, shapes);
    const auto queries =
        make_operand(context, context.activations, tokens * heads * dim, shapes.seed);
    const auto out = make_operand(context, context.activations, tokens * heads * dim, shapes.seed);
    std::vector<int32_t> starts, table;
    for (int64_t s = 0; s <= sequences; ++s) starts.push_back(static_cast<int32_t>(s * count));
    for (int64_t b = 0; b < sequences * blocks; ++b) table.push_back(static_cast<int32_t>(b));
    const auto query_start_loc = make_indices(context, starts);
    const auto lengths = make_indices(context, std::vector<int32_t>(static_cast<size_t>(sequences),
                                                                    static_cast<int32_t>(length)));
    const auto tables = make_indices(context, table);
    made.run = [=, &context](size_t call) {
        const Operand& both = cache.at(call);
        ops::paged_attention(context, queries->view({tokens, heads, dim}),
                             keys_view(context, both, sequences * blocks, kv_heads, dim),
                             both.view({sequences * blocks, kv_heads, kBlock, dim}, cached),
                             query_start_loc->view({sequences + 1}), lengths->view({sequences}),
                             tables->view({sequences, blocks}),
                             {.scale = 1.0f / std::sqrt(static_cast<float>(dim))},
                             out->view({tokens, heads, dim}));
    };
    return made;
}

}  // namespace

KernelCase plain_product(const Context& context, const KernelShapes& shapes, int64_t tokens,
                         int64_t in, int64_t out) {
    return matmul_case(context, shapes, tokens, in, out);
}

std::vector<KernelCaseMaker> kernel_cases(const Context& context, const KernelShapes& shapes) {
    std::vector<KernelCaseMaker> makers;
    const auto add = [&](const std::string& name, auto make) {
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
    add("matmul batch qkv", matmul(shapes.decode_sequences, hidden, qkv));
    add("matmul batch gate_up", matmul(shapes.decode_sequences, hidden, 2 * width));
    add("matmul batch down", matmul(shapes.decode_sequences, width, hidden));
    add("matmul prefill qkv", matmul(tokens, hidden, qkv));
    add("matmul prefill gate_up", matmul(tokens, hidden, 2 * width));
    add("matmul prefill down", matmul(tokens, width, hidden));
    for (const QuantizedKind& kind : kQuantizedKinds) {
        if (!is_multiplied(context, kind, shapes)) continue;
        const auto quantized = [&](int64_t rows) {
            return [=](const Context& where, const KernelShapes& sizes) {
                return quantized_case(where, sizes, kind, rows, hidden, 2 * width);
            };
        };
        add(fmt::format("{} decode gate_up", kind.name), quantized(1));
        add(fmt::format("{} batch gate_up", kind.name), quantized(shapes.decode_sequences));
        add(fmt::format("{} prefill gate_up", kind.name), quantized(tokens));
    }
    if (context.backend == nullptr || context.backend->ops->lora_shrink != nullptr) {
        for (const bool shrinks : {true, false}) {
            add(shrinks ? "lora shrink batch" : "lora expand batch",
                [=](const Context& where, const KernelShapes& sizes) {
                    return adapters_case(where, sizes, hidden, 2 * width, shrinks);
                });
        }
    }
    add("rms_norm", norm_case);
    add("rope", rope_case);
    add("gated_activation silu", activation_case);
    add("attention decode", attention(shapes.decode_sequences, 1, shapes.context));
    add("attention prefill", attention(1, tokens, tokens));
    return makers;
}

}  // namespace nvllm
