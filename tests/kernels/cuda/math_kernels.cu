// Kernels over arithmetic and conversions.
#include "kernels/cuda/gpu.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace wrappers {

namespace gpu = nvllm::gpu;

namespace {

__device__ __forceinline__ float function_of(int which, float x) {
    switch (which) {
        case 0:
            return gpu::fast_exp2(x);
        case 1:
            return gpu::fast_exp(x);
        case 2:
            return gpu::fast_log2(x);
        case 3:
            return gpu::fast_log(x);
        case 4:
            return gpu::rsqrt(x);
        default:
            return gpu::fast_tanh(x);
    }
}

__global__ void math_function_kernel(int which, const float* x, float* out, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] = function_of(which, x[i]);
}

__global__ void bit_functions_kernel(uint32_t a, uint32_t b, uint32_t c, uint32_t* out) {
    out[0] = static_cast<uint32_t>(gpu::count_ones(a));
    out[1] = static_cast<uint32_t>(gpu::count_leading_zeros(a));
    out[2] = static_cast<uint32_t>(gpu::count_trailing_zeros(a));
    out[3] = static_cast<uint32_t>(gpu::dot_i8x4(a, b, static_cast<int>(c)));
    out[4] = gpu::permute_bytes(a, b, c);
    out[5] = gpu::logic3<(0xf0 & 0xcc) | 0xaa>(a, b, c);
    out[6] = static_cast<uint32_t>(gpu::round_to_int(gpu::bits_as_float(c)));
    out[7] = gpu::float_as_bits(gpu::bits_as_float(a));
}

__global__ void conversions_kernel(const float* x, float* out, int count) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= count) return;
    out[i] = gpu::to_float(gpu::from_float<__nv_bfloat16>(x[i]));
    out[count + i] = gpu::to_float(gpu::from_float<__half>(x[i]));
    out[2 * count + i] = gpu::to_float(gpu::from_float<__nv_fp8_e4m3>(x[i]));
    const float2 pair = gpu::unpack2<__nv_bfloat16>(gpu::pack2<__nv_bfloat16>(x[i], -x[i]));
    out[3 * count + i] = pair.x - pair.y;
    const float2 halves = gpu::unpack2<__half>(gpu::pack2<__half>(x[i], -x[i]));
    out[4 * count + i] = gpu::fma(halves.x, 2.0f, halves.y + halves.x);
}

}  // namespace

void math_function(int which, const float* x, float* out, int count) {
    gpu::launch(math_function_kernel, {.grid = {(count + 63) / 64}, .block = {64}}, which, x, out,
                count);
}

void bit_functions(uint32_t a, uint32_t b, uint32_t c, uint32_t* out) {
    gpu::launch(bit_functions_kernel, {.grid = {1}, .block = {1}}, a, b, c, out);
}

void conversions(const float* x, float* out, int count) {
    gpu::launch(conversions_kernel, {.grid = {1}, .block = {64}}, x, out, count);
}

}  // namespace wrappers
