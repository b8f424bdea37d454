// Random numbers as a pure function of a key and a counter: Philox4x32-10.
//
// Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. There is no
// state to share, save or restore: whoever knows key and counter gets the same numbers, in any
// order and on any thread.
#pragma once

#include <array>
#include <cstdint>

namespace nvllm {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// The four random words that belong to this counter under this key.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
    constexpr uint64_t kMultiplier0 = 0xD2511F53u;
    constexpr uint64_t kMultiplier1 = 0xCD9E8D57u;
    constexpr uint32_t kWeyl0 = 0x9E3779B9u;
    constexpr uint32_t kWeyl1 = 0xBB67AE85u;
    for (int round = 0; round < 10; ++round) {
        const uint64_t product0 = kMultiplier0 * counter[0];
        const uint64_t product1 = kMultiplier1 * counter[2];
        counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<uint32_t>(product1),
                   static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<uint32_t>(product0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

constexpr PhiloxKey philox_key(uint64_t seed) {
    return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// A number in [0, 1) from the 53 upper bits of two random words.
constexpr double unit_interval(uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32) | low;
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace nvllm
