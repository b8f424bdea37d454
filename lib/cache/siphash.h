// SipHash-2-4 with 128 bits of output: a keyed hash on which nobody without the key can find
// collisions. Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nvllm {

struct HashKey {
    uint64_t low = 0;
    uint64_t high = 0;

    // From the system's source of randomness.
    static HashKey random();
};

struct Hash128 {
    uint64_t low = 0;
    uint64_t high = 0;

    bool operator==(const Hash128&) const = default;
};

// Bytes go in by add(), in pieces of any size; the pieces' borders do not change the hash.
class SipHash128 {
  public:
    explicit SipHash128(const HashKey& key);

    void add(std::span<const std::byte> bytes);
    // REQUIRES: called once, after the last add().
    Hash128 finish();

  private:
    void absorb(uint64_t word);
    void round();

    std::array<uint64_t, 4> state_;
    uint64_t pending_ = 0;  // bytes that do not fill a word yet, the first in the lowest bits
    uint64_t length_ = 0;
};

}  // namespace nvllm
