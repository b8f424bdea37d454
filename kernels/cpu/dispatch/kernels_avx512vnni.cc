// Integer products with AVX-512 VNNI: four products of bytes are added into each lane at once.
#if defined(__x86_64__)
#include "kernels/cpu/quantized/integers_vnni.h"
#include "kernels/cpu/quantized/quantized_kernels.h"

namespace nvllm::cpu {

const QuantizedKernels& avx512vnni_kernels() {
    static const QuantizedKernels table = quantized_kernels<VnniIntegers>();
    return table;
}

}  // namespace nvllm::cpu
#endif
