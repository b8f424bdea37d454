// Fields of a few bits in 32-bit words, lowest bits first, as quantized checkpoints pack them.
#pragma once

#include <cstdint>

namespace nvllm {

// Field i occupies bits [i * bits, (i + 1) * bits) of words that are `stride` apart, crossing from
// one to the next; or, with `whole`, as many as fit lie in each word.
struct BitString {
    int bits = 4;
    int64_t stride = 1;
    bool whole = false;

    int64_t words(int64_t fields) const {
        return whole ? (fields + 32 / bits - 1) / (32 / bits) : (fields * bits + 31) / 32;
    }
    uint32_t get(const uint32_t* words, int64_t i) const {
        const Place place = find(i);
        uint64_t both = words[place.word * stride];
        if (place.bit + bits > 32) both |= uint64_t{words[(place.word + 1) * stride]} << 32;
        return static_cast<uint32_t>(both >> place.bit) & mask();
    }
    // The field's bits are 0 before.
    void set(uint32_t* words, int64_t i, uint32_t value) const {
        const Place place = find(i);
        const uint64_t both = uint64_t{value & mask()} << place.bit;
        words[place.word * stride] |= static_cast<uint32_t>(both);
        if (place.bit + bits > 32) {
            words[(place.word + 1) * stride] |= static_cast<uint32_t>(both >> 32);
        }
    }

  private:
    struct Place {
        int64_t word;
        int bit;
    };
    uint32_t mask() const { return (1u << bits) - 1u; }
    Place find(int64_t i) const {
        if (whole) return {i / (32 / bits), static_cast<int>(i % (32 / bits)) * bits};
        return {i * bits / 32, static_cast<int>(i * bits % 32)};
    }
};

}  // namespace nvllm
