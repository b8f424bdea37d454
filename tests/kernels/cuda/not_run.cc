// Stands in for the CUDA kernels' tests where no CUDA headers are: says that they have not run.
#include <cstdio>

int main() {
    std::puts(
        "NOT RUN: the tests of the CUDA kernels need the headers of a CUDA toolkit, and none were "
        "found when this was "
        "built. Install them, or set NVLLM_CUDA_INCLUDE, and configure again.");
    return 77;
}
