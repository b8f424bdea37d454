// Reading the double array (Aoe, 1989, in Darts-clone's layout) with every index checked.
#include "lib/tokenizer/unicode/charsmap.h"

#include <cstring>

#include "kernels/error.h"
#include "lib/base/utf8.h"

namespace nvllm {
namespace {

// One unit of the array: label, offset to the children, and whether a key ends here.
struct Unit {
    uint32_t bits;
    bool has_leaf() const { return ((bits >> 8) & 1) == 1; }
    uint32_t value() const { return bits & 0x7FFFFFFFu; }
    uint32_t label() const { return bits & (0x80000000u | 0xFFu); }
    uint32_t offset() const { return (bits >> 10) << ((bits & (1u << 9)) >> 6); }
};

int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    if (c == '/') return 63;
    return -1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    for (size_t at = 0; at < text.size(); at += 4) {
        const bool last = at + 4 == text.size();
        size_t padding = 0;
        if (last && text[at + 3] == '=') padding = text[at + 2] == '=' ? 2 : 1;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; ++i) {
            const int digit = i >= 4 - padding ? 0 : base64_digit(text[at + i]);
            if (digit < 0) return std::nullopt;
            bits = (bits << 6) | static_cast<uint32_t>(digit);
        }
        for (size_t i = 0; i < 3 - padding; ++i) {
            out.push_back(static_cast<char>((bits >> (16 - 8 * i)) & 0xFF));
        }
    }
    return out;
}

Charsmap::Charsmap(std::string_view blob, const std::string& source) {
    if (blob.empty()) return;
    uint32_t trie_bytes = 0;
    if (blob.size() >= 4) std::memcpy(&trie_bytes, blob.data(), 4);
    if (blob.size() < 4 || trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4 || trie_bytes == 0) {
        throw Error(ErrorKind::bad_data, source + ": the precompiled character map is damaged");
    }
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), blob.data() + 4, trie_bytes);
    replacements_ = blob.substr(4 + trie_bytes);
    if (!utf8::is_valid(replacements_)) {
        throw Error(ErrorKind::bad_data,
                    source + ": the precompiled character map holds text that is not UTF-8");
    }
}

Charsmap Charsmap::from_base64(const JsonView& text) {
    const auto blob = decode_base64(text.string());
    if (!blob) text.fail("is not base64");
    return Charsmap(*blob, text.path());
}

template <typename Found>
void Charsmap::walk(std::string_view text, Found&& found) const {
    if (units_.empty()) return;
    size_t node = Unit{units_[0]}.offset();
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte == 0) return;
        node ^= byte;
        if (node >= units_.size()) return;
        const Unit unit{units_[node]};
        if (unit.label() != byte) return;
        node ^= unit.offset();
        if (node >= units_.size()) return;
        if (unit.has_leaf() && !found(i + 1, Unit{units_[node]}.value())) return;
    }
}

std::string_view Charsmap::replacement_at(uint32_t offset) const {
    if (offset >= replacements_.size()) return {};
    const std::string_view rest = std::string_view(replacements_).substr(offset);
    const std::string_view text = rest.substr(0, rest.find('\0'));
    // A damaged map may point into the middle of a character.
    return utf8::is_valid(text) ? text : std::string_view();
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text) const {
    std::optional<Match> best;
    walk(text, [&](size_t length, uint32_t value) {
        best = Match{length, replacement_at(value)};
        return true;
    });
    return best;
}

std::optional<std::string_view> Charsmap::shortest(std::string_view text) const {
    std::optional<std::string_view> first;
    walk(text, [&](size_t, uint32_t value) {
        first = replacement_at(value);
        return false;
    });
    return first;
}

}  // namespace nvllm
