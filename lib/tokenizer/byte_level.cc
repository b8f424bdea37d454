// The alphabet of byte-level BPE: printable Latin-1 stands for itself, other bytes for U+0100 and
// up, in order.
#include "lib/tokenizer/byte_level.h"

#include <array>

#include "lib/base/utf8.h"

namespace nvllm {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;

struct Alphabet {
    std::array<std::string, 256> characters;
    std::array<int, kAlphabetEnd> bytes;

    Alphabet() {
        bytes.fill(-1);
        char32_t next = 0x100;
        for (int byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                                   (byte >= 0xAE && byte <= 0xFF);
            const char32_t c = printable ? static_cast<char32_t>(byte) : next++;
            utf8::append(characters[static_cast<size_t>(byte)], c);
            bytes[c] = byte;
        }
    }
};

const Alphabet& alphabet() {
    static const Alphabet the_alphabet;
    return the_alphabet;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

std::string_view byte_level_character(uint8_t byte) { return alphabet().characters[byte]; }

void append_byte_level(std::string& out, std::string_view bytes) {
    const Alphabet& table = alphabet();
    for (const char c : bytes) out += table.characters[static_cast<unsigned char>(c)];
}

std::string bytes_of_byte_level(std::string_view token) {
    const Alphabet& table = alphabet();
    std::string bytes;
    for (size_t at = 0; at < token.size();) {
        const utf8::Decoded character = utf8::decode(token.substr(at));
        const int byte =
            character.code_point < kAlphabetEnd ? table.bytes[character.code_point] : -1;
        if (byte < 0) return std::string(token);
        bytes.push_back(static_cast<char>(byte));
        at += character.length;
    }
    return bytes;
}

std::string byte_token(uint8_t byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
    if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
    const int high = hex_digit(token[3]);
    const int low = hex_digit(token[4]);
    if (high < 0 || low < 0) return std::nullopt;
    return static_cast<uint8_t>(high * 16 + low);
}

}  // namespace nvllm
