// The kernels for AVX-512 with BF16: those of AVX-512, but for products of two bfloat16 factors.
#if defined(__x86_64__)
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/simd_avx512.h"

namespace nvllm::cpu {
namespace {

// Pairs of bfloat16 factors, multiplied and added into one float32 lane by one instruction.
struct BFloat16Pairs {
    using Simd = Avx512;
    using Weight = BFloat16;
    using Packed = BFloat16;
    using Vector = __m512bh;
    static constexpr int64_t step = 32;

    static Vector load_x(const BFloat16* p) { return load_weight(p); }
    static Vector load_weight(const BFloat16* p) {
        return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
    }
    static Vector load_weight(const BFloat16* p, int64_t count) {
        const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
        return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, p));
    }
    static __m512 multiply_add(Vector x, Vector w, __m512 sum) { return _mm512_dpbf16_ps(sum, x, w); }
    static void pack(const float* x, BFloat16* out) {
        Avx512::store(out, Avx512::load(x));
        Avx512::store(out + 16, Avx512::load(x + 16));
    }
    static void pack(const float* x, int64_t count, BFloat16* out) {
        Avx512::store(out, Avx512::load(x, count < 16 ? count : 16));
        Avx512::store(out + 16, count > 16 ? Avx512::load(x + 16, count - 16) : Avx512::zero());
    }
};

Kernels table_with_pairs() {
    constexpr auto bf16 = static_cast<size_t>(FloatType::bf16);
    Kernels table = avx512_kernels();
    table.matmul[bf16][bf16] = matmul_kernels<BFloat16Pairs>();
    return table;
}

}  // namespace

const Kernels& avx512bf16_kernels() {
    static const Kernels table = table_with_pairs();
    return table;
}

}  // namespace nvllm::cpu
#endif
