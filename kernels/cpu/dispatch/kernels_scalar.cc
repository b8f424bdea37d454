// The kernels for any processor.
#include "kernels/cpu/dispatch/kernel_table.h"
#include "kernels/cpu/quantized/quantized_codes.h"
#include "kernels/cpu/simd/simd_scalar.h"

namespace nvllm::cpu {

const Kernels& scalar_kernels() {
    static const Kernels table = kernel_table<Scalar, ScalarCodes>();
    return table;
}

}  // namespace nvllm::cpu
