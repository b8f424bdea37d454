// Digests of data, to detect that it changed. Not for keys that an attacker may choose to collide.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvllm {

// FNV-1a (Fowler, Noll and Vo), 64 bits. `before`: the digest of what comes before the data.
inline uint64_t digest(const void* data, size_t bytes, uint64_t before = 0xcbf29ce484222325ull) {
    const auto* const values = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) before = (before ^ values[i]) * 0x100000001b3ull;
    return before;
}

}  // namespace nvllm
