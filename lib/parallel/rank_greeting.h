// What a rank says when it comes: "NVLLMRNK", then as uint32 each, little-endian, a version, its
// rank, the number of ranks and how many bytes the secret has that follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

inline constexpr size_t kMaxSecretBytes = 256;

struct RankGreeting {
    uint32_t rank = 0;
    uint32_t num_ranks = 0;
};

std::vector<uint8_t> write_greeting(const RankGreeting& greeting, const std::string& secret);

// Of all that is said with this secret.
size_t greeting_bytes(const std::string& secret);

enum class Heard : uint8_t {
    part,   // right so far
    wrong,  // not from a rank of this version that knows the secret
    whole,
};
// Reads what was said so far into `greeting`, which is filled when it is whole. REQUIRES: at most
// greeting_bytes().
Heard read_greeting(std::span<const uint8_t> said, const std::string& secret,
                    RankGreeting& greeting);

}  // namespace nvllm
