// How large a block of the key-value cache is: so many tokens, or what so many bytes hold.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>

namespace nvllm {

struct BlockSize {
    static constexpr int32_t kMaxTokens = 4096;

    int32_t tokens = 16;
    std::optional<uint64_t> bytes = std::nullopt;  // instead of tokens

    BlockSize() = default;
    BlockSize(int32_t given_tokens) : tokens(given_tokens) {}  // plain numbers are tokens
    static BlockSize of_bytes(uint64_t bytes) {
        BlockSize size;
        size.bytes = bytes;
        return size;
    }

    // What the bytes hold, rounded down; at least 1 and at most kMaxTokens.
    // REQUIRES: bytes_per_token > 0 where the size is in bytes.
    int32_t in_tokens(int64_t bytes_per_token) const {
        if (!bytes) return tokens;
        const uint64_t held = *bytes / static_cast<uint64_t>(bytes_per_token);
        return static_cast<int32_t>(std::clamp<uint64_t>(held, 1, kMaxTokens));
    }

    auto operator<=>(const BlockSize&) const = default;
};

}  // namespace nvllm
