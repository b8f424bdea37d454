// Compares and copies.
#include "lib/parallel/rank_handshake.h"

#include <array>
#include <cstring>

namespace nvllm {
namespace {

constexpr uint32_t kVersion = 1;
constexpr std::array<char, 8> kMagic = {'N', 'V', 'L', 'L', 'M', 'R', 'N', 'K'};
constexpr size_t kHeadBytes = kMagic.size() + 4 * sizeof(uint32_t);

uint32_t number_at(std::span<const uint8_t> bytes, size_t index) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data() + kMagic.size() + index * sizeof(number), sizeof(number));
    return number;
}

// In a time that does not tell how much of it is right.
bool is_equal(std::span<const uint8_t> given, const std::string& secret) {
    unsigned difference = 0;
    for (size_t i = 0; i < secret.size(); ++i) {
        difference |= static_cast<unsigned>(given[i] ^ static_cast<uint8_t>(secret[i]));
    }
    return difference == 0;
}

}  // namespace

std::vector<uint8_t> write_handshake(const RankHandshake& handshake, const std::string& secret) {
    std::vector<uint8_t> bytes(kMagic.begin(), kMagic.end());
    for (const uint32_t number :
         {kVersion, handshake.rank, handshake.num_ranks, static_cast<uint32_t>(secret.size())}) {
        const auto* const raw = reinterpret_cast<const uint8_t*>(&number);
        bytes.insert(bytes.end(), raw, raw + sizeof(number));
    }
    bytes.insert(bytes.end(), secret.begin(), secret.end());
    return bytes;
}

size_t handshake_bytes(const std::string& secret) { return kHeadBytes + secret.size(); }

HandshakeState read_handshake(std::span<const uint8_t> said, const std::string& secret,
                              RankHandshake& handshake) {
    if (said.size() < kHeadBytes) return HandshakeState::incomplete;
    const bool is_known = std::memcmp(said.data(), kMagic.data(), kMagic.size()) == 0 &&
                          number_at(said, 0) == kVersion && number_at(said, 3) == secret.size();
    if (!is_known) return HandshakeState::wrong;
    if (said.size() < handshake_bytes(secret)) return HandshakeState::incomplete;
    if (!is_equal(said.subspan(kHeadBytes), secret)) return HandshakeState::wrong;
    handshake = {number_at(said, 1), number_at(said, 2)};
    return HandshakeState::complete;
}

}  // namespace nvllm
