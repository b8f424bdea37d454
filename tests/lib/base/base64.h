// Bytes out of base64: how fixtures hold what is not text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nvllm::test {

// Ignores padding and anything that is not of the alphabet.
inline std::string decode_base64(std::string_view text) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    uint32_t bits = 0;
    int num_bits = 0;
    for (const char letter : text) {
        const size_t value = kAlphabet.find(letter);
        if (value == std::string_view::npos) continue;
        bits = (bits << 6) | static_cast<uint32_t>(value);
        num_bits += 6;
        if (num_bits < 8) continue;
        num_bits -= 8;
        bytes.push_back(static_cast<char>((bits >> num_bits) & 0xffu));
    }
    return bytes;
}

}  // namespace nvllm::test
