// The kernels for AVX2 with FMA and F16C.
#if defined(__x86_64__)
#include "kernels/cpu/dispatch/kernel_table.h"
#include "kernels/cpu/quantized/dequantize_avx2.h"
#include "kernels/cpu/simd/simd_avx2.h"

namespace nvllm::cpu {

namespace {

Kernels table_with_bytes() {
    Kernels table = kernel_table<Avx2, Avx2Dequantizer>();
    constexpr auto int4 = static_cast<size_t>(ops::WeightFormat::int4);
    table.quantized.multiply_integers[int4] = PartKernel<Int4Parts<Avx2Integers>>::multiply;
    table.quantized.arrange[int4] = arrange_quantized<Avx2Integers, ops::WeightFormat::int4>;
    table.quantized.integer_bytes[int4] = sizeof(Avx2Integers::X);
    return table;
}

}  // namespace

const Kernels& avx2_kernels() {
    static const Kernels table = table_with_bytes();
    return table;
}

}  // namespace nvllm::cpu
#endif
