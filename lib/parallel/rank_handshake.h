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

struct RankHandshake {
    uint32_t rank = 0;
    uint32_t num_ranks = 0;
};

std::vector<uint8_t> write_handshake(const RankHandshake& handshake, const std::string& secret);

// Of all that is said with this secret.
size_t handshake_bytes(const std::string& secret);

enum class HandshakeState : uint8_t {
    incomplete,  // right so far
    wrong,       // not from a rank of this version that knows the secret
    complete,
};
// Reads what was said so far into `handshake`, which is filled when it is whole. REQUIRES: at most
// handshake_bytes().
HandshakeState read_handshake(std::span<const uint8_t> said, const std::string& secret,
                              RankHandshake& handshake);

}  // namespace nvllm
