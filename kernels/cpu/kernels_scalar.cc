// The kernels for any processor.
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/quantized_codes.h"
#include "kernels/cpu/simd_scalar.h"

namespace nvllm::cpu {

const Kernels& scalar_kernels() {
    static const Kernels table = kernel_table<Scalar, ScalarCodes>();
    return table;
}

}  // namespace nvllm::cpu
