#include "lib/grammar/schema/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/utf8.h"

namespace nvllm {
namespace {

constexpr size_t kMaxNesting = 100;
constexpr int64_t kMaxCount = 1000000;
constexpr size_t kShown = 100;  // of a pattern, in messages
constexpr std::string_view kAnything = "[\\s\\S]*";
// What "." is not.
constexpr std::string_view kNoLineEnd = "[^\\n\\r\\u2028\\u2029]";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class PatternWriter {
  public:
    PatternWriter(std::string_view pattern, PatternUse use) : pattern_(pattern), use_(use) {}

    // Throws Fault.
    std::string write() {
        while (at_ < pattern_.size()) step();
        if (depth_ > 0) refuse("a parenthesis that is not closed");
        end_alternative();
        return out_;
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Fault{
            ErrorKind::bad_data,
            fmt::format("the pattern \"{}{}\" has {}, at byte {}", pattern_.substr(0, kShown),
                        pattern_.size() > kShown ? "..." : "", what, at_)};
    }

    char peek(size_t ahead = 0) const {
        return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
    }

    void step() {
        const char c = peek();
        if (closed_ && c != '|') refuse("something after \"$\", which is not supported");
        switch (c) {
            case '^':
                if (depth_ > 0 || !body_.empty()) refuse("\"^\" inside, which is not supported");
                begins_ = true;
                ++at_;
                return;
            case '$':
                if (depth_ > 0) refuse("\"$\" in a group, which is not supported");
                closed_ = true;
                ++at_;
                return;
            case '|':
                ++at_;
                if (depth_ > 0) {
                    body_ += '|';
                } else {
                    end_alternative();
                    out_ += '|';
                }
                return;
            case '(':
                return open_group();
            case ')':
                if (depth_ == 0) refuse("a \")\" without \"(\"");
                --depth_;
                body_ += ')';
                ++at_;
                return;
            case '[':
                return write_class();
            case '\\':
                return write_escape(false);
            case '.':
                body_ += kNoLineEnd;
                ++at_;
                return;
            case '{':
                return write_count();
            case '*':
            case '+':
            case '?':
                body_ += c;
                ++at_;
                skip_lazy();
                return;
            case ']':
            case '}':
                body_ += '\\';
                body_ += c;
                ++at_;
                return;
            default:
                write_character();
        }
    }

    void end_alternative() {
        if (use_ == PatternUse::search && !begins_) out_ += kAnything;
        out_ += body_;
        if (use_ == PatternUse::search && !closed_) out_ += kAnything;
        body_.clear();
        begins_ = closed_ = false;
    }

    void open_group() {
        if (++depth_ > kMaxNesting) refuse("groups nested too deeply");
        ++at_;
        if (peek() == '?') {
            const char kind = peek(1);
            if (kind == '<' && is_letter(peek(2))) {
                while (at_ < pattern_.size() && peek() != '>') ++at_;
                ++at_;
            } else if (kind == ':') {
                at_ += 2;
            } else {
                refuse(kind == '=' || kind == '!' || kind == '<'
                           ? "a look-around assertion, which is not supported"
                           : "a group modifier, which is not supported");
            }
        }
        body_ += "(?:";
    }

    void skip_lazy() {
        if (peek() == '?') ++at_;
        if (peek() == '*' || peek() == '+' || peek() == '?')
            refuse("two quantifiers one after the other");
    }

    // {2}, {2,} and {2,5}; any other brace is itself.
    void write_count() {
        size_t end = at_ + 1;
        while (end < pattern_.size() && (is_digit(pattern_[end]) || pattern_[end] == ',')) ++end;
        const std::string_view inside = pattern_.substr(at_ + 1, end - at_ - 1);
        if (end >= pattern_.size() || pattern_[end] != '}' || inside.empty() ||
            inside.front() == ',' || std::count(inside.begin(), inside.end(), ',') > 1) {
            body_ += "\\{";
            ++at_;
            return;
        }
        int64_t number = 0;
        for (const char c : inside) {
            number = c == ',' ? 0 : number * 10 + (c - '0');
            if (number > kMaxCount) refuse(fmt::format("a repetition of more than {}", kMaxCount));
        }
        body_ += fmt::format("{{{}}}", inside);
        at_ = end + 1;
        skip_lazy();
    }

    void write_class() {
        ++at_;
        const bool negated = peek() == '^';
        if (negated) ++at_;
        if (peek() == ']') {
            if (!negated) refuse("an empty class, which nothing matches");
            body_ += "[\\s\\S]";
            ++at_;
            return;
        }
        body_ += negated ? "[^" : "[";
        while (peek() != ']') {
            if (at_ >= pattern_.size()) refuse("a \"[\" that is not closed");
            if (peek() == '\\') {
                write_escape(true);
            } else if (peek() == '[' || peek() == '^') {
                body_ += '\\';
                body_ += peek();
                ++at_;
            } else {
                write_character();
            }
        }
        body_ += ']';
        ++at_;
    }

    int hex_digits(size_t from, size_t count) const {
        int value = 0;
        for (size_t i = from; i < from + count; ++i) {
            const char c = i < pattern_.size() ? pattern_[i] : '\0';
            const int digit = is_digit(c)            ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) return -1;
            value = value * 16 + digit;
        }
        return value;
    }

    void write_code_point(char32_t code) {
        if (code < 0x80 && code >= 0x20) {
            const char c = static_cast<char>(code);
            if (!is_letter(c) && !is_digit(c) && c != ' ' && c != '_' && c != '"' && c != '\'')
                body_ += '\\';
            body_ += c;
        } else {
            body_ += fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(code));
        }
    }

    void write_character() {
        const utf8::Decoded character = utf8::decode(pattern_.substr(at_));
        if (!character.valid) refuse("bytes that are not UTF-8");
        at_ += character.length;
        if (character.code_point < 0x80 && character.code_point >= 0x20) {
            body_ += static_cast<char>(character.code_point);
        } else {
            write_code_point(character.code_point);
        }
    }

    // \uD83D\uDE00 is one character, as \u{1F600} is.
    void write_unicode_escape() {
        if (peek(2) == '{') {
            const size_t end = pattern_.find('}', at_);
            const size_t digits = end == std::string_view::npos ? 0 : end - at_ - 3;
            const int code = digits >= 1 && digits <= 6 ? hex_digits(at_ + 3, digits) : -1;
            if (code < 0 || code > 0x10FFFF) refuse("a \"\\u\" without its number");
            at_ = end + 1;
            return write_code_point(static_cast<char32_t>(code));
        }
        int code = hex_digits(at_ + 2, 4);
        if (code < 0) refuse("a \"\\u\" without its number");
        at_ += 6;
        if (code >= 0xD800 && code < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
            const int low = hex_digits(at_ + 2, 4);
            if (low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                at_ += 6;
            }
        }
        if (code >= 0xD800 && code < 0xE000) refuse("half of a surrogate pair");
        write_code_point(static_cast<char32_t>(code));
    }

    void write_escape(bool in_class) {
        const char c = peek(1);
        if (at_ + 1 >= pattern_.size()) refuse("a backslash at its end");
        if (c == 'u') return write_unicode_escape();
        if (c == 'x') {
            const int code = hex_digits(at_ + 2, 2);
            if (code < 0) refuse("a \"\\x\" without its number");
            at_ += 4;
            return write_code_point(static_cast<char32_t>(code));
        }
        if (c == 'c' && is_letter(peek(2))) {
            write_code_point(static_cast<char32_t>(peek(2) % 32));
            at_ += 3;
            return;
        }
        if (std::string_view("dDwWsSnrtfv0").find(c) != std::string_view::npos) {
            if (c == 's' || c == 'S') {
                write_space(c == 's', in_class);
            } else {
                body_ += '\\';
                body_ += c;
            }
            at_ += 2;
            return;
        }
        if (c == 'b' && in_class) {
            write_code_point(8);
            at_ += 2;
            return;
        }
        if (c == 'b' || c == 'B') refuse("a word boundary, which is not supported");
        if (c == 'p' || c == 'P') refuse("a Unicode property, which is not supported");
        if (c == 'k' || is_digit(c)) refuse("a backreference, which is not supported");
        ++at_;
        if (is_letter(c) || static_cast<unsigned char>(c) >= 0x80) return write_character();
        write_code_point(static_cast<unsigned char>(c));
        ++at_;
    }

    // ECMAScript's white space is more than the engine's.
    void write_space(bool is_space, bool in_class) {
        constexpr std::string_view kSpaces =
            "\\t\\n\\v\\f\\r \\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{2028}\\u{2029}\\u{202f}"
            "\\u{205f}\\u{3000}\\u{feff}";
        if (in_class) {
            if (is_space) {
                body_ += kSpaces;
            } else {
                body_ +=
                    "\\u{0}-\\u{8}\\u{e}-\\u{1f}!-\\u{9f}\\u{a1}-\\u{167f}\\u{1681}-\\u{1fff}"
                    "\\u{200b}-\\u{2027}\\u{202a}-\\u{202e}\\u{2030}-\\u{205e}\\u{2060}-\\u{2fff}"
                    "\\u{3001}-\\u{fefe}\\u{ff00}-\\u{10ffff}";
            }
            return;
        }
        body_ += fmt::format("[{}{}]", is_space ? "" : "^", kSpaces);
    }

    std::string_view pattern_;
    PatternUse use_;
    size_t at_ = 0;
    size_t depth_ = 0;
    std::string out_;
    std::string body_;     // of the alternative at hand
    bool begins_ = false;  // it has "^"
    bool closed_ = false;  // and "$"
};

}  // namespace

Result<std::string> engine_pattern(std::string_view pattern, PatternUse use) {
    try {
        return PatternWriter(pattern, use).write();
    } catch (const Fault& fault) {
        return fault;
    }
}

}  // namespace nvllm
