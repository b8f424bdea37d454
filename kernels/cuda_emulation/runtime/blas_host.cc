// The host twin of the library of dense products: there is none, so the kernels compute them.
#include "kernels/cuda/runtime/blas.h"

namespace nvllm::cuda {

void warn_about_blas(void (*)(const char*)) {}

std::string describe_blas() { return "no cuBLASLt under emulation: products by our own kernels"; }

bool multiply_by_library(const Context&, const ConstTensorView&, const ConstTensorView&,
                         const ConstTensorView&, DType, ops::MatmulOutput, bool,
                         const TensorView&) {
    return false;
}

bool library_takes_scaled_mm(const Context&, const ScaledMmArgs&) { return false; }
void scaled_mm_by_library(const Context&, const ScaledMmArgs&) {}

}  // namespace nvllm::cuda
