// Random numbers as a pure function of a key and a counter: Philox4x32-10, for host and device.
//
// Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. There is no
// state to share, save or restore: the caller knows key and counter gets the same numbers, in any
// order and on any thread.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define NVLLM_HOST_DEVICE __host__ __device__
#else
#define NVLLM_HOST_DEVICE
#endif

namespace nvllm {

// Four words: a counter, and in its place the random words that belong to it.
struct RandomWords {
    uint32_t words[4];
};

// What the last word of a counter says: no two uses share a random number.
enum RandomPurpose : uint32_t { kChooseToken = 0 };

// The random words that belong to this counter under this seed.
NVLLM_HOST_DEVICE constexpr RandomWords random_words(RandomWords counter, uint64_t seed) {
    constexpr uint64_t kMultiplier0 = 0xD2511F53u;
    constexpr uint64_t kMultiplier1 = 0xCD9E8D57u;
    constexpr uint32_t kWeyl0 = 0x9E3779B9u;
    constexpr uint32_t kWeyl1 = 0xBB67AE85u;
    auto key0 = static_cast<uint32_t>(seed);
    auto key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t product0 = kMultiplier0 * counter.words[0];
        const uint64_t product1 = kMultiplier1 * counter.words[2];
        counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0,
                    static_cast<uint32_t>(product1),
                    static_cast<uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1,
                    static_cast<uint32_t>(product0)}};
        key0 += kWeyl0;
        key1 += kWeyl1;
    }
    return counter;
}

// Well mixed bits of a counter, for values of which only the distribution matters: the finaliser of
// SplitMix64 (Steele et al. 2014).
NVLLM_HOST_DEVICE constexpr uint64_t mixed_bits(uint64_t counter) {
    counter += 0x9e3779b97f4a7c15u;
    counter = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9u;
    counter = (counter ^ (counter >> 27)) * 0x94d049bb133111ebu;
    return counter ^ (counter >> 31);
}

// A number in [0, 1) from the 53 upper bits of two random words.
NVLLM_HOST_DEVICE constexpr double unit_interval(uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32) | low;
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Where in [0, 1) a continuation of a request draws its token number `num_generated`.
NVLLM_HOST_DEVICE constexpr double token_point(uint64_t seed, uint32_t num_generated,
                                               uint32_t continuation_index) {
    const RandomWords random =
        random_words({{num_generated, 0, continuation_index, kChooseToken}}, seed);
    return unit_interval(random.words[0], random.words[1]);
}

}  // namespace nvllm
