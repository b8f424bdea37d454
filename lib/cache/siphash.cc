// The rounds of SipHash-2-4-128.
#include "lib/cache/siphash.h"

#include <bit>
#include <random>

namespace nvllm {

namespace {

// The first byte in the lowest bits, on every machine.
uint64_t word_at(const std::byte* bytes) {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return word;
}

}  // namespace

HashKey HashKey::random() {
    std::random_device device;
    const auto word = [&] { return (uint64_t{device()} << 32) | device(); };
    return {word(), word()};
}

SipHash128::SipHash128(const HashKey& key)
    : state_{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d ^ 0xee,
             key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573} {}

void SipHash128::round() {
    auto& [a, b, c, d] = state_;
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

void SipHash128::absorb(uint64_t word) {
    state_[3] ^= word;
    round();
    round();
    state_[0] ^= word;
}

void SipHash128::add(std::span<const std::byte> bytes) {
    // Whole words at once as long as no bytes are pending.
    if (length_ % 8 == 0) {
        const size_t num_words = bytes.size() / 8;
        for (size_t i = 0; i < num_words; ++i) absorb(word_at(bytes.data() + 8 * i));
        length_ += 8 * num_words;
        bytes = bytes.subspan(8 * num_words);
    }
    for (const std::byte byte : bytes) {
        pending_ |= static_cast<uint64_t>(byte) << (8 * (length_ % 8));
        if (++length_ % 8 == 0) {
            absorb(pending_);
            pending_ = 0;
        }
    }
}

Hash128 SipHash128::finish() {
    absorb(pending_ | (length_ << 56));
    const auto word = [&](int lane, uint64_t mark) {
        state_[lane] ^= mark;
        for (int i = 0; i < 4; ++i) round();
        return state_[0] ^ state_[1] ^ state_[2] ^ state_[3];
    };
    Hash128 hash;
    hash.low = word(2, 0xee);
    hash.high = word(1, 0xdd);
    return hash;
}

}  // namespace nvllm
