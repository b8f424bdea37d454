// SipHash with 128 bits of output: a keyed hash for which only the owner of the key can find
// collisions. Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
//
// SipHash128 is SipHash-2-4, for which the authors publish values. FastSipHash128 is SipHash-1-3,
// the variant that the hash tables of Rust and Ruby use: half the rounds. It is enough where a
// collision costs time and never correctness, as in the prefix index, which compares what it finds.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
template <int kWordRounds, int kLastRounds>
class BasicSipHash128 {
  public:
    explicit BasicSipHash128(const HashKey& key)
        : state_{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d ^ 0xee,
                 key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573} {}

    void add(std::span<const std::byte> bytes);
    // REQUIRES: called once, after the last add().
    Hash128 finish();

  private:
    using State = std::array<uint64_t, 4>;

    // The first byte in the lowest bits, on every machine.
    static uint64_t word_at(const std::byte* bytes) {
        if constexpr (std::endian::native == std::endian::little) {
            uint64_t word;
            std::memcpy(&word, bytes, sizeof(word));
            return word;
        }
        uint64_t word = 0;
        for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
        return word;
    }

    static void round(State& state) {
        auto& [a, b, c, d] = state;
        a += b;
        c += d;
        b = std::rotl(b, 13) ^ a;
        d = std::rotl(d, 16) ^ c;
        a = std::rotl(a, 32);
        c += b;
        a += d;
        b = std::rotl(b, 17) ^ c;
        d = std::rotl(d, 21) ^ a;
        c = std::rotl(c, 32);
    }

    static void absorb(State& state, uint64_t word) {
        state[3] ^= word;
        for (int i = 0; i < kWordRounds; ++i) round(state);
        state[0] ^= word;
    }

    State state_;
    uint64_t pending_ = 0;  // bytes that do not fill a word yet, the first in the lowest bits
    uint64_t length_ = 0;
};

template <int kWordRounds, int kLastRounds>
void BasicSipHash128<kWordRounds, kLastRounds>::add(std::span<const std::byte> bytes) {
    // Of this function, so that the compiler keeps it in registers.
    State state = state_;
    // Whole words at once as long as no bytes are pending.
    if (length_ % 8 == 0) {
        const size_t num_words = bytes.size() / 8;
        for (size_t i = 0; i < num_words; ++i) absorb(state, word_at(bytes.data() + 8 * i));
        length_ += 8 * num_words;
        bytes = bytes.subspan(8 * num_words);
    }
    for (const std::byte byte : bytes) {
        pending_ |= static_cast<uint64_t>(byte) << (8 * (length_ % 8));
        if (++length_ % 8 == 0) {
            absorb(state, pending_);
            pending_ = 0;
        }
    }
    state_ = state;
}

template <int kWordRounds, int kLastRounds>
Hash128 BasicSipHash128<kWordRounds, kLastRounds>::finish() {
    State state = state_;
    absorb(state, pending_ | (length_ << 56));
    const auto word = [&](int lane, uint64_t mark) {
        state[lane] ^= mark;
        for (int i = 0; i < kLastRounds; ++i) round(state);
        return state[0] ^ state[1] ^ state[2] ^ state[3];
    };
    Hash128 hash;
    hash.low = word(2, 0xee);
    hash.high = word(1, 0xdd);
    return hash;
}

using SipHash128 = BasicSipHash128<2, 4>;
using FastSipHash128 = BasicSipHash128<1, 3>;

}  // namespace nvllm
