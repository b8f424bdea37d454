// The lists of candidates for matmuls.
#include "kernels/cuda/matmul/matmul_selection.h"

#include <span>

#include "kernels/cuda/matmul/gemv.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/quantized/matmul_quantized.h"
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

template <typename Call>
struct Candidate {
    const char* name;
    bool (*takes)(const Call& call);
    // False: nothing was launched, because a library refused the shape. The next candidate is
    // tried.
    bool (*launch)(const Call& call);
};

// REQUIRES: the last candidate takes every call.
template <typename Call, size_t count>
const char* launch_first(const Candidate<Call> (&candidates)[count], const Call& call) {
    for (const Candidate<Call>& candidate : candidates) {
        if (candidate.takes(call) && candidate.launch(call)) return candidate.name;
    }
    NVLLM_CHECK(false, "no kernel takes a matmul");
    return "nothing";
}

struct DenseChoice {
    DenseMatmul call;
    MatmulSettings settings;
};

constexpr Candidate<DenseChoice> kDense[] = {
    {"gemv",
     [](const DenseChoice& choice) {
         const DenseMatmul& call = choice.call;
         return !choice.settings.batch_invariant &&
                can_gemv(call.x, call.weight, call.compute_type);
     },
     [](const DenseChoice& choice) {
         const DenseMatmul& call = choice.call;
         gemv(call.context, call.x, call.weight, call.bias, call.compute_type, call.output, call.y);
         return true;
     }},
    {"library", [](const DenseChoice& choice) { return choice.settings.library != nullptr; },
     [](const DenseChoice& choice) {
         const DenseMatmul& call = choice.call;
         return choice.settings.library->multiply(call.context, call.x, call.weight, call.bias,
                                                  call.compute_type, call.output,
                                                  choice.settings.batch_invariant, call.y);
     }},
    {"gemm", [](const DenseChoice&) { return true; },
     [](const DenseChoice& choice) {
         const DenseMatmul& call = choice.call;
         gemm(call.context, call.x, call.weight, call.bias, call.compute_type, call.output, call.y);
         return true;
     }},
};

struct GemmChoice {
    const Context& context;
    const MatmulCall& call;
    DType weight_type;
    DType compute_type;
};

constexpr Candidate<GemmChoice> kGemm[] = {
    {"tensor cores",
     [](const GemmChoice& choice) {
         return choice.compute_type != DType::f32 && choice.weight_type == choice.compute_type;
     },
     [](const GemmChoice& choice) {
         launch_gemm_tensor_cores(choice.context, choice.call, choice.compute_type);
         return true;
     }},
    {"simt", [](const GemmChoice&) { return true; },
     [](const GemmChoice& choice) {
         launch_gemm_simt(choice.context, choice.call, choice.weight_type, choice.compute_type);
         return true;
     }},
};

struct QuantizedChoice {
    QuantizedMatmul call;
    MatmulSettings settings;

    // Whether a kernel may be taken that gives a row other bits in another batch.
    bool may_differ() const { return !settings.batch_invariant && call.compute_type != DType::f32; }
};

constexpr Candidate<QuantizedChoice> kQuantized[] = {
    {"scaled_mm",
     [](const QuantizedChoice& choice) {
         return choice.may_differ() && choice.settings.library != nullptr &&
                can_scaled_mm(choice.call.x, choice.call.weight);
     },
     [](const QuantizedChoice& choice) {
         const QuantizedMatmul& call = choice.call;
         return scaled_mm(call.context, call.x, call.weight, call.bias, call.output, call.y,
                          choice.settings.library->scaled_mm);
     }},
    {"dequantize_gemm",
     [](const QuantizedChoice& choice) {
         const QuantizedMatmul& call = choice.call;
         return choice.may_differ() && can_dequantize(call.x, call.weight, call.compute_type);
     },
     [](const QuantizedChoice& choice) {
         const QuantizedMatmul& call = choice.call;
         dequantize_gemm(call.context, call.x, call.weight, call.bias, call.compute_type,
                         call.output, call.y,
                         [&](const Context& context, const ConstTensorView& x,
                             const ConstTensorView& weight, const ConstTensorView& bias,
                             DType compute_type, ops::MatmulOutput output, const TensorView& y) {
                             select_matmul({context, x, weight, bias, compute_type, output, y},
                                           choice.settings);
                         });
         return true;
     }},
    {"gemm_quantized", [](const QuantizedChoice&) { return true; },
     [](const QuantizedChoice& choice) {
         const QuantizedMatmul& call = choice.call;
         gemm_quantized(call.context, call.x, call.weight, call.bias, call.compute_type,
                        call.output, call.y);
         return true;
     }},
};

struct PackedChoice {
    const Context& context;
    const QuantizedCall& call;
    ops::WeightFormat code;
    DType operand;
};

constexpr Candidate<PackedChoice> kPacked[] = {
    {"sparse", [](const PackedChoice& choice) { return ops::is_sparse(choice.code); },
     [](const PackedChoice& choice) {
         launch_gemm_sparse(choice.context, choice.call, choice.code, choice.operand);
         return true;
     }},
    {"simt", [](const PackedChoice& choice) { return choice.operand == DType::f32; },
     [](const PackedChoice& choice) {
         launch_gemm_quantized_simt(choice.context, choice.call, choice.code);
         return true;
     }},
    {"gemv",
     [](const PackedChoice& choice) {
         return can_gemv_quantized(choice.call, choice.code, choice.operand);
     },
     [](const PackedChoice& choice) {
         launch_gemv_quantized(choice.context, choice.call, choice.code, choice.operand);
         return true;
     }},
    {"integer tensor cores", [](const PackedChoice& choice) { return choice.operand == DType::i8; },
     [](const PackedChoice& choice) {
         launch_gemm_quantized_integers(choice.context, choice.call, choice.code);
         return true;
     }},
    {"tensor cores", [](const PackedChoice&) { return true; },
     [](const PackedChoice& choice) {
         launch_gemm_quantized_tensor_cores(choice.context, choice.call, choice.code,
                                            choice.operand);
         return true;
     }},
};

}  // namespace

const char* select_matmul(const DenseMatmul& call, const MatmulSettings& settings) {
    if (call.y.numel() == 0 || call.context.is_dry_run()) return "nothing";
    return launch_first(kDense, DenseChoice{call, settings});
}

const char* select_matmul_quantized(const QuantizedMatmul& call, const MatmulSettings& settings) {
    if (call.y.numel() == 0) return "nothing";
    return launch_first(kQuantized, QuantizedChoice{call, settings});
}

const char* select_gemm(const Context& context, const MatmulCall& call, DType weight_type,
                        DType compute_type) {
    if (call.tokens == 0 || call.out == 0 || context.is_dry_run()) return "nothing";
    return launch_first(kGemm, GemmChoice{context, call, weight_type, compute_type});
}

const char* select_gemm_quantized(const Context& context, const QuantizedCall& call,
                                  ops::WeightFormat code, DType operand) {
    if (context.is_dry_run()) return "nothing";
    return launch_first(kPacked, PackedChoice{context, call, code, operand});
}

}  // namespace nvllm::cuda
