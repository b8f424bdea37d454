// The kernels for AVX-512 with BF16: those of AVX-512, but for products of bfloat16 factors.
#if defined(__x86_64__)
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/probe_kernels.h"
#include "kernels/cpu/quantized_codes_avx512.h"
#include "kernels/cpu/quantized_kernels.h"
#include "kernels/cpu/simd_avx512.h"

namespace nvllm::cpu {
namespace {

// Pairs of bfloat16 factors, multiplied and added into one float32 lane by one instruction.
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

// Bit patterns of bfloat16, by code; twice, because a permutation looks at the lowest five bits.
struct Int4Values {
    static __m512i table() {
        const __m256i values = _mm256_setr_epi16(
            static_cast<short>(0xc100), static_cast<short>(0xc0e0), static_cast<short>(0xc0c0),
            static_cast<short>(0xc0a0), static_cast<short>(0xc080), static_cast<short>(0xc040),
            static_cast<short>(0xc000), static_cast<short>(0xbf80), 0x0000, 0x3f80, 0x4000, 0x4040,
            0x4080, 0x40a0, 0x40c0, 0x40e0);
        return _mm512_broadcast_i64x4(values);
    }
};
struct Float4Values {
    static __m512i table() {
        const __m256i values = _mm256_setr_epi16(
            0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
            static_cast<short>(0x8000), static_cast<short>(0xbf00), static_cast<short>(0xbf80),
            static_cast<short>(0xbfc0), static_cast<short>(0xc000), static_cast<short>(0xc040),
            static_cast<short>(0xc080), static_cast<short>(0xc0c0));
        return _mm512_broadcast_i64x4(values);
    }
};

// 4-bit codes as bfloat16, which holds all of their values. Codes i and i + 4 of a word are a pair.
template <class Values>
struct NibblePairs : Avx512Codes {
    using Sum = F;
    using X = BFloat16;
    static Sum no_sums() { return _mm512_setzero_ps(); }
    static F to_float(Sum sum) { return sum; }
    template <int part>
    static Words int4_weights(Words words) {
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * part), Values::table());
    }
    static void add_int4(Words weights, const X* x, Sum& sum) {
        int32_t pair;
        std::memcpy(&pair, x, sizeof(pair));
        sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)),
                               reinterpret_cast<__m512bh>(weights));
    }
};

// Rounded to nearest even, in the order of the pairs; count is a multiple of 8.
void arrange_nibble_pairs(const float* x, int64_t count, void* arranged) {
    const __m256i order = _mm256_setr_epi16(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    auto* out = static_cast<BFloat16*>(arranged);
    for (int64_t k = 0; k < count; k += 16) {
        const int64_t left = count - k < 16 ? 8 : 16;
        alignas(32) BFloat16 narrow[16];
        Avx512::store(narrow, Avx512::load(x + k, left));
        const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(narrow));
        _mm256_mask_storeu_epi16(out + k, static_cast<__mmask16>((1u << left) - 1),
                                 _mm256_permutexvar_epi16(order, values));
    }
}

double bfloat16_loop(int64_t rounds) {
    constexpr int chains = ProbeKernels<Avx512>::chains;
    __m512 sums[chains];
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
    for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
        for (int i = 0; i < chains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], factor, factor);
    }
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) ProbeKernels<Avx512>::keep(sums[i]);
    return 4.0 * chains * Avx512::lanes;
}

Kernels table_with_pairs() {
    constexpr auto bf16 = static_cast<size_t>(FloatType::bf16);
    Kernels table = avx512_kernels();
    table.matmul[bf16][bf16] = matmul_kernels<BFloat16Pairs, BFloat16>();
    const auto pairs = table.quantized.multiply_pairs;
    using ops::WeightCode;
    pairs[static_cast<size_t>(WeightCode::int4)] =
        PartKernel<NibblePairs<Int4Values>, WeightCode::int4>::multiply;
    pairs[static_cast<size_t>(WeightCode::float4)] =
        PartKernel<NibblePairs<Float4Values>, WeightCode::int4>::multiply;
    table.quantized.arrange_pairs = arrange_nibble_pairs;
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
