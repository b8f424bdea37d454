// The kernels for AVX-512 F, BW, DQ and VL.
#if defined(__x86_64__)
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace nvllm::cpu {

const Kernels& avx512_kernels() {
    static const Kernels table = kernel_table<Avx512>();
    return table;
}

}  // namespace nvllm::cpu
#endif
