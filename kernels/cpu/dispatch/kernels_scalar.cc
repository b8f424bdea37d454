// The kernels for any processor.
#include "kernels/cpu/dispatch/kernel_table.h"
#include "kernels/cpu/quantized/dequantize_scalar.h"
#include "kernels/cpu/simd/simd_scalar.h"

namespace nvllm::cpu {

const Kernels& scalar_kernels() {
    static const Kernels table = kernel_table<Scalar, ScalarDequantizer>();
    return table;
}

}  // namespace nvllm::cpu
