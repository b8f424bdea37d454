// Loops that keep memory or the multipliers busy and do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvllm::cpu {

template <class S>
struct ProbeKernels {
    using F = typename S::F;

    // Reads `bytes` from front to back.
    static void read_memory(const std::byte* memory, int64_t bytes) {
        constexpr int64_t step = 4 * static_cast<int64_t>(sizeof(F));
        F sums[4] = {S::zero(), S::zero(), S::zero(), S::zero()};
        for (int64_t i = 0; i + step <= bytes; i += step) {
            __builtin_prefetch(memory + i + 4096);
            const float* values = reinterpret_cast<const float*>(memory + i);
            for (int v = 0; v < 4; ++v) sums[v] = S::max(sums[v], S::load(values + v * S::lanes));
        }
        keep(S::max(S::max(sums[0], sums[1]), S::max(sums[2], sums[3])));
    }

    // Twelve chains: enough for the latency of two multipliers, few enough for sixteen registers.
    static constexpr int chains = 12;

    static double float32_loop(int64_t rounds) {
        F sums[chains];
#pragma GCC unroll 12
        for (int i = 0; i < chains; ++i) sums[i] = S::set(static_cast<float>(i));
        F factor = S::set(0.999f);
        for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
            for (int i = 0; i < chains; ++i) sums[i] = S::fma(sums[i], factor, factor);
        }
#pragma GCC unroll 12
        for (int i = 0; i < chains; ++i) keep(sums[i]);
        return 2.0 * chains * S::lanes;
    }

    // Hides a value from the optimiser, which would otherwise drop the loop that makes it.
    static void keep(F value) {
        float lanes[S::lanes];
        S::store(lanes, value);
        asm volatile("" : : "r"(lanes) : "memory");
    }
};

}  // namespace nvllm::cpu
