// Emulated tests of the choice of kernels for matmuls.
#include "kernels/cuda/matmul/matmul_selection.h"

#include <string>
#include <vector>

#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

// Libraries that say that they multiplied everything, or nothing, and launch nothing.
template <bool takes>
constexpr cuda::GemmLibrary kLibrary = {
    [](const Context&, const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
       DType, ops::MatmulOutput, bool, const TensorView&) { return takes; },
    {[](const Context&, const cuda::ScaledMmArgs&) { return takes; },
     [](const Context&, const cuda::ScaledMmArgs&) {}}};

constexpr cuda::MatmulSettings kOwnKernels = {};
constexpr cuda::MatmulSettings kInvariant = {.batch_invariant = true};
constexpr cuda::MatmulSettings kWithLibrary = {.library = &kLibrary<true>};
constexpr cuda::MatmulSettings kInvariantWithLibrary = {true, &kLibrary<true>};
constexpr cuda::MatmulSettings kRefused = {.library = &kLibrary<false>};

std::string dense(int64_t tokens, DType dtype, const cuda::MatmulSettings& settings) {
    testing::Machine machine(1);
    Buffer x(dtype, 9 * 16), weight(dtype, 4 * 16), y(dtype, 9 * 4);
    return cuda::select_matmul({machine.context(),
                                x.view({tokens, 16}),
                                weight.view({4, 16}),
                                {},
                                dtype,
                                ops::MatmulOutput::overwrite,
                                y.view({tokens, 4})},
                               settings);
}

std::string quantized(int64_t tokens, const ops::QuantizedLayout& layout,
                      const ops::ActivationRounding& rounding, DType compute_type,
                      const cuda::MatmulSettings& settings) {
    testing::Machine machine(1);
    std::vector<int8_t> values(static_cast<size_t>(layout.out * layout.in), 1);
    std::vector<float> scales(static_cast<size_t>(layout.out * layout.groups()), 1.0f);
    std::vector<uint8_t> packed(cuda::quantized_weight_bytes(layout, {}));
    const TensorView memory(packed.data(), DType::u8, {static_cast<int64_t>(packed.size())});
    cuda::pack_weight(machine.context(), layout,
                      {ConstTensorView(values.data(), DType::i8, {layout.out, layout.in}),
                       testing::view(scales, {layout.out, layout.groups()}),
                       {}},
                      memory);
    Buffer x(DType::bf16, tokens * layout.in), y(DType::bf16, tokens * layout.out);
    const ops::QuantizedWeight weight{layout, 1.0f, rounding, memory, {}};
    return cuda::select_matmul_quantized({machine.context(),
                                          x.view({tokens, layout.in}),
                                          weight,
                                          {},
                                          compute_type,
                                          ops::MatmulOutput::overwrite,
                                          y.view({tokens, layout.out})},
                                         settings);
}

}  // namespace

TEST_CASE("cuda: dense matmuls take the first kernel of the list that can") {
    CHECK(dense(0, DType::bf16, kWithLibrary) == "nothing");
    CHECK(dense(8, DType::bf16, kWithLibrary) == "gemv");
    CHECK(dense(9, DType::bf16, kWithLibrary) == "library");
    CHECK(dense(9, DType::bf16, kRefused) == "gemm");
    CHECK(dense(9, DType::bf16, kOwnKernels) == "gemm");
    CHECK(dense(8, DType::f32, kWithLibrary) == "library");
    CHECK(dense(8, DType::bf16, kInvariant) == "gemm");
    CHECK(dense(8, DType::bf16, kInvariantWithLibrary) == "library");
}

TEST_CASE("cuda: quantized matmuls take the first kernel of the list that can") {
    const ops::QuantizedLayout groups{ops::WeightFormat::int4, 8, 64, 32, false, DType::f32};
    CHECK(quantized(127, groups, {}, DType::bf16, kWithLibrary) == "gemm_quantized");
    CHECK(quantized(128, groups, {}, DType::bf16, kWithLibrary) == "dequantize_gemm");
    CHECK(quantized(128, groups, {}, DType::f32, kWithLibrary) == "gemm_quantized");
    CHECK(quantized(128, groups, {}, DType::bf16, kInvariantWithLibrary) == "gemm_quantized");

    const ops::QuantizedLayout rows{ops::WeightFormat::float8, 8, 64, 64, false, DType::f32};
    const ops::ActivationRounding to_float8{.code = ops::ActivationFormat::float8};
    CHECK(quantized(64, rows, to_float8, DType::bf16, kWithLibrary) == "scaled_mm");
    CHECK(quantized(63, rows, to_float8, DType::bf16, kWithLibrary) == "gemm_quantized");
    CHECK(quantized(64, rows, to_float8, DType::bf16, kRefused) == "gemm_quantized");
    CHECK(quantized(64, rows, to_float8, DType::bf16, kOwnKernels) == "gemm_quantized");
    CHECK(quantized(128, rows, to_float8, DType::bf16, kRefused) == "dequantize_gemm");
    CHECK(quantized(64, rows, to_float8, DType::bf16, kInvariantWithLibrary) == "gemm_quantized");
}
