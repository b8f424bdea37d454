// Digests of data, to detect that it changed. Not for keys that an attacker may choose to collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nvllm {

// FNV-1a (Fowler, Noll and Vo), 64 bits. `before`: the digest of what comes before the data.
inline uint64_t digest(const void* data, size_t bytes, uint64_t before = 0xcbf29ce484222325ull) {
    const auto* const values = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) before = (before ^ values[i]) * 0x100000001b3ull;
    return before;
}

// Another one, for large data: FNV-1a waits for each byte. Four lanes take words in turn, mixed
// after each so that high bits reach low ones; an end that is no whole group goes in byte by byte.
inline uint64_t fast_digest(const void* data, size_t bytes, uint64_t before) {
    constexpr size_t kLanes = 4;
    constexpr size_t kGroup = kLanes * sizeof(uint64_t);
    constexpr uint64_t kPrime = 0x100000001b3ull;
    const auto* const values = static_cast<const unsigned char*>(data);
    uint64_t lanes[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = before + lane;
    const size_t groups = bytes / kGroup;
    for (size_t group = 0; group < groups; ++group) {
        uint64_t words[kLanes];
        std::memcpy(words, values + group * kGroup, kGroup);
        for (size_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = (lanes[lane] ^ words[lane]) * kPrime;
            lanes[lane] ^= lanes[lane] >> 32;
        }
    }
    const uint64_t sum = digest(lanes, sizeof(lanes));
    return digest(values + groups * kGroup, bytes % kGroup, sum);
}

}  // namespace nvllm
