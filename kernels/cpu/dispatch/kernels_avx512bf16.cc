// The kernels for AVX-512 with BF16: those of AVX-512, but for products of bfloat16 operands.
#if defined(__x86_64__)
#include "kernels/cpu/attention/attention_matmuls.h"
#include "kernels/cpu/attention/attention_vnni_pairs_avx512.h"
#include "kernels/cpu/matmul/matmul_kernels.h"
#include "kernels/cpu/quantized/quantized_kernels.h"
#include "kernels/cpu/quantized/vnni_pairs_avx512.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/probe_kernels.h"
#include "kernels/cpu/simd/simd_avx512.h"

namespace nvllm::cpu {
namespace {

// Pairs of bfloat16 operands, multiplied and added into one float32 lane by one instruction.
struct BFloat16Pairs {
    using Simd = Avx512;
    using Weight = BFloat16;
    using Packed = BFloat16;
    using Vector = __m512bh;
    static constexpr int parts = 1;
    static constexpr int64_t step = 32;
    static constexpr int rows = Avx512::tile_rows;

    template <int part>
    static Vector load_x(const BFloat16* p) {
        return load_weight<0>(p);
    }
    template <int part>
    static Vector load_weight(const BFloat16* p) {
        return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
    }
    static void load_tail(const BFloat16* p, int64_t count, BFloat16* out) {
        Avx512::load_pairs(p, count, out);
    }
    static void store(BFloat16* p, Vector x) {
        _mm512_storeu_si512(p, reinterpret_cast<__m512i>(x));
    }
    static __m512 multiply_add(Vector x, Vector w, __m512 sum) {
        return _mm512_dpbf16_ps(sum, x, w);
    }
    template <typename X>
    static void pack(const float* x, BFloat16* out) {
        Avx512::store(out, Avx512::load(x));
        Avx512::store(out + 16, Avx512::load(x + 16));
    }
};

double bfloat16_loop(int64_t rounds) {
    constexpr int accumulators = ProbeKernels<Avx512>::accumulators;
    __m512 sums[accumulators];
#pragma GCC unroll 12
    for (int i = 0; i < accumulators; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
    for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
        for (int i = 0; i < accumulators; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], factor, factor);
    }
#pragma GCC unroll 12
    for (int i = 0; i < accumulators; ++i) ProbeKernels<Avx512>::keep(sums[i]);
    return 4.0 * accumulators * Avx512::lanes;
}

Kernels table_with_pairs() {
    constexpr auto bf16 = static_cast<size_t>(FloatType::bf16);
    Kernels table = avx512_kernels();
    table.matmul[bf16][bf16] = matmul_kernels<BFloat16Pairs, BFloat16>();
    using ops::WeightFormat;
    const auto pairs_of = [&](WeightFormat code) -> QuantizedVnniPairs& {
        return table.quantized.pairs[static_cast<size_t>(code)];
    };
    pairs_of(WeightFormat::int4) = {PartKernel<Int4Parts<NibbleVnniPairs<Int4Values>>>::multiply,
                                    arrange_for_nibbles};
    pairs_of(WeightFormat::float4) = {
        PartKernel<Int4Parts<NibbleVnniPairs<Float4Values>>>::multiply, arrange_for_nibbles};
    pairs_of(WeightFormat::float8) = {PartKernel<Int8Parts<Float8VnniPairs>>::multiply,
                                      arrange_for_bytes};
    pairs_of(WeightFormat::sparse_bfloat16) = {
        PartKernel<SparseVnniPairs<WeightFormat::sparse_bfloat16>>::multiply, arrange_as_they_are};
    pairs_of(WeightFormat::sparse_float8) = {
        PartKernel<SparseVnniPairs<WeightFormat::sparse_float8>>::multiply, arrange_as_they_are};
    table.attention_vnni_pairs = attention_matmuls<AttentionVnniPairs>(AttentionVnniPairs::pack);
    table.bfloat16_loop = bfloat16_loop;
    return table;
}

}  // namespace

const Kernels& avx512bf16_kernels() {
    static const Kernels table = table_with_pairs();
    return table;
}

}  // namespace nvllm::cpu
#endif
