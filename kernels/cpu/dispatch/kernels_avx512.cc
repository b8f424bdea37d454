// The kernels for AVX-512 F, BW, DQ and VL.
#if defined(__x86_64__)
#include "kernels/cpu/dispatch/kernel_table.h"
#include "kernels/cpu/quantized/dequantize_avx512.h"
#include "kernels/cpu/simd/simd_avx512.h"

namespace nvllm::cpu {

namespace {

// Integer sums are exact, so products by VNNI are the same.
Kernels table_for_this_machine() {
    Kernels table = kernel_table<Avx512, Avx512Dequantizer>();
    if (__builtin_cpu_supports("avx512vnni")) {
        const QuantizedKernels& vnni = avx512vnni_kernels();
        for (size_t i = 0; i < 2; ++i) {
            table.quantized.multiply_integers[i] = vnni.multiply_integers[i];
            table.quantized.arrange[i] = vnni.arrange[i];
            table.quantized.integer_bytes[i] = vnni.integer_bytes[i];
        }
        table.quantized.int8_loop = vnni.int8_loop;
    }
    return table;
}

}  // namespace

const Kernels& avx512_kernels() {
    static const Kernels table = table_for_this_machine();
    return table;
}

}  // namespace nvllm::cpu
#endif
