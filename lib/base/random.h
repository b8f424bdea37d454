// Philox (kernels/random.h) over arrays, as lib takes it.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/random.h"

namespace nvllm {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// The four random words that belong to this counter under this key.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
    const RandomWords random = random_words({{counter[0], counter[1], counter[2], counter[3]}},
                                            (uint64_t{key[1]} << 32) | key[0]);
    return {random.words[0], random.words[1], random.words[2], random.words[3]};
}

constexpr PhiloxKey philox_key(uint64_t seed) {
    return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

}  // namespace nvllm
