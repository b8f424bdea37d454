// Loops that keep memory or the multipliers busy and do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvllm::cpu {

template <class S>
struct ProbeKernels {
    using F = typename S::F;

    // Reads `bytes` as so many streams side by side, of equal length: processors differ in how many
    // they read fastest.
    template <int streams>
    static void read_memory(const std::byte* memory, int64_t bytes) {
        constexpr int vectors = 4 / streams;
        constexpr int64_t step = vectors * static_cast<int64_t>(sizeof(F));
        const int64_t length = bytes / streams;
        // Several streams that are fetched from further ahead are slower (Zen 4).
        constexpr int64_t kAheadBytes = streams == 1 ? 4096 : 256;
        F sums[4] = {S::zero(), S::zero(), S::zero(), S::zero()};
        for (int64_t i = 0; i + step <= length; i += step) {
#pragma GCC unroll 4
            for (int stream = 0; stream < streams; ++stream) {
                const std::byte* at = memory + stream * length + i;
                __builtin_prefetch(at + kAheadBytes);
                const float* values = reinterpret_cast<const float*>(at);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v) {
                    F& sum = sums[stream * vectors + v];
                    sum = S::max(sum, S::load(values + v * S::lanes));
                }
            }
        }
        keep(S::max(S::max(sums[0], sums[1]), S::max(sums[2], sums[3])));
    }

    // Twelve accumulators: enough for the latency of two multipliers, few enough for sixteen
    // registers.
    static constexpr int accumulators = 12;

    static double float32_loop(int64_t rounds) {
        F sums[accumulators];
#pragma GCC unroll 12
        for (int i = 0; i < accumulators; ++i) sums[i] = S::set(static_cast<float>(i));
        F factor = S::set(0.999f);
        for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
            for (int i = 0; i < accumulators; ++i) sums[i] = S::fma(sums[i], factor, factor);
        }
#pragma GCC unroll 12
        for (int i = 0; i < accumulators; ++i) keep(sums[i]);
        return 2.0 * accumulators * S::lanes;
    }

    // Hides a value from the optimiser, which would otherwise drop the loop that makes it.
    static void keep(F value) {
        float lanes[S::lanes];
        S::store(lanes, value);
        asm volatile("" : : "r"(lanes) : "memory");
    }
};

// C: quantized values of weights, as in dequantize_scalar.h.
template <class C>
double int8_loop(int64_t rounds) {
    constexpr int accumulators = ProbeKernels<typename C::Simd>::accumulators;
    constexpr int lanes = C::Simd::lanes;
    uint32_t codes[lanes];
    for (int i = 0; i < lanes; ++i) codes[i] = 0x01010101u * static_cast<uint32_t>(i + 1);
    typename C::X
        x[4 * accumulators];  // of each accumulator its own, or the compiler makes one of them
    for (int i = 0; i < 4 * accumulators; ++i) x[i] = static_cast<typename C::X>(i);
    typename C::Sum sums[accumulators];
#pragma GCC unroll 12
    for (int i = 0; i < accumulators; ++i) sums[i] = C::no_sums();
    const auto weights = C::template int8_weights<0>(C::load(codes));
    for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
        for (int i = 0; i < accumulators; ++i) C::add_int8(weights, x + 4 * i, sums[i]);
        asm volatile("" : : "r"(x) : "memory");  // x is loaded anew
    }
#pragma GCC unroll 12
    for (int i = 0; i < accumulators; ++i)
        ProbeKernels<typename C::Simd>::keep(C::to_float(sums[i]));
    return 2.0 * accumulators * lanes * 4 / C::int8_parts;
}

}  // namespace nvllm::cpu
