// The kernels for AVX2 with FMA and F16C.
#if defined(__x86_64__)
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/quantized_codes_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace nvllm::cpu {

const Kernels& avx2_kernels() {
    static const Kernels table = kernel_table<Avx2, Avx2Codes>();
    return table;
}

}  // namespace nvllm::cpu
#endif
