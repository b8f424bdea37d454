// The rules of Jinja's lexer: white space control, comments, raw blocks, literals.
#include "lib/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {
namespace {

// Longest first, so that the first that fits is right.
constexpr std::array<std::string_view, 25> kSymbols = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

// Line ends as one line feed; the last one is dropped.
std::string with_plain_lines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out.push_back(source[i]);
            continue;
        }
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        out.push_back('\n');
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

// Python's str.rstrip().
std::string_view without_trailing_space(std::string_view text) {
    while (!text.empty()) {
        size_t at = text.size() - 1;
        while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
        const char32_t c = utf8::decode(text.substr(at)).code_point;
        if (!unicode::is_white_space(c) && !(c >= 0x1C && c <= 0x1F)) break;
        text = text.substr(0, at);
    }
    return text;
}

class Lexer {
  public:
    explicit Lexer(std::string source) : source_(std::move(source)) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) data();
        add(TokenKind::end, "");
        return std::move(tokens_);
    }

  private:
    std::string_view rest() const { return std::string_view(source_).substr(at_); }
    bool starts(std::string_view text) const { return rest().starts_with(text); }

    void add(TokenKind kind, std::string value) {
        tokens_.push_back({kind, std::move(value), line_});
    }

    void move_to(size_t at) {
        line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                             source_.begin() + static_cast<ptrdiff_t>(at), '\n'));
        at_ = at;
    }
    void skip_space() {
        size_t at = at_;
        while (at < source_.size() && space_length(at) > 0) at += space_length(at);
        move_to(at);
    }
    // \s of Python's regular expressions
    size_t space_length(size_t at) const {
        const utf8::Decoded c = utf8::decode(std::string_view(source_).substr(at));
        const bool space =
            unicode::is_white_space(c.code_point) || (c.code_point >= 0x1C && c.code_point <= 0x1F);
        return space ? c.length : 0;
    }
    void skip_line_end() {
        if (starts("\n")) move_to(at_ + 1);
    }

    // Text up to the next tag, and the beginning of that tag.
    void data() {
        const size_t open = next_open(at_);
        const std::string_view text = std::string_view(source_).substr(at_, open - at_);
        if (open == source_.size()) {
            emit_data(text);
            move_to(open);
            return;
        }
        const char kind = source_[open + 1];
        const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
        const bool signed_tag = sign == '-' || sign == '+';
        emit_data(stripped(text, kind, signed_tag ? sign : '\0'));
        move_to(open);
        const size_t inside = open + 2 + (signed_tag ? 1 : 0);
        if (kind == '#') {
            move_to(inside);
            comment();
        } else if (kind == '%' && raw_follows(inside)) {
            raw();
        } else if (kind == '%') {
            move_to(inside);
            add(TokenKind::block_begin, "");
            expression(true);
        } else {
            move_to(inside);
            add(TokenKind::variable_begin, "");
            expression(false);
        }
    }

    size_t next_open(size_t at) const {
        for (; (at = source_.find('{', at)) != std::string::npos; ++at) {
            if (at + 1 >= source_.size()) break;
            const char c = source_[at + 1];
            if (c == '{' || c == '%' || c == '#') return at;
        }
        return source_.size();
    }

    void emit_data(std::string_view text) {
        if (!text.empty()) add(TokenKind::data, std::string(text));
    }

    // The text before a tag, less the white space that the tag takes.
    std::string_view stripped(std::string_view text, char kind, char sign) const {
        if (sign == '-') return without_trailing_space(text);
        if (sign == '+' || kind == '{') return text;
        const size_t line = text.rfind('\n');
        const size_t start = line == std::string_view::npos ? 0 : line + 1;
        const bool line_starts = start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
        if (!line_starts) return text;
        for (size_t at = start; at < text.size();) {
            const size_t length = space_length(at_ + at);
            if (length == 0) return text;
            at += length;
        }
        return text.substr(0, start);
    }

    void comment() {
        const size_t close = source_.find("#}", at_);
        if (close == std::string::npos) fail_template(line_, "Missing end of comment tag");
        const char sign = close > at_ ? source_[close - 1] : '\0';
        move_to(close + 2);
        end_of_tag(sign == '-' || sign == '+' ? sign : '\0', true);
    }

    // White space behind a closed tag.
    void end_of_tag(char sign, bool trims_line) {
        if (sign == '-') {
            skip_space();
        } else if (sign != '+' && trims_line) {
            skip_line_end();
        }
    }

    // "raw" and the end of the tag, from `at` on.
    bool raw_follows(size_t at) const {
        while (at < source_.size() && is_space(source_[at])) ++at;
        if (std::string_view(source_).substr(at, 3) != "raw") return false;
        at += 3;
        while (at < source_.size() && is_space(source_[at])) ++at;
        const std::string_view close = std::string_view(source_).substr(at);
        return close.starts_with("%}") || close.starts_with("-%}");
    }

    void raw() {
        const int first_line = line_;
        const size_t close = source_.find("%}", at_);
        const bool minus = source_[close - 1] == '-';
        move_to(close + 2);
        if (minus) skip_space();
        const size_t begin = at_;
        for (size_t open = begin; (open = source_.find("{%", open)) != std::string::npos; ++open) {
            size_t at = open + 2;
            const char sign = at < source_.size() ? source_[at] : '\0';
            const bool signed_tag = sign == '-' || sign == '+';
            if (signed_tag) ++at;
            while (at < source_.size() && is_space(source_[at])) ++at;
            if (std::string_view(source_).substr(at, 6) != "endraw") continue;
            at += 6;
            while (at < source_.size() && is_space(source_[at])) ++at;
            const char end_sign = at < source_.size() ? source_[at] : '\0';
            const bool signed_end = end_sign == '-' || end_sign == '+';
            if (signed_end) ++at;
            if (std::string_view(source_).substr(at, 2) != "%}") continue;
            const std::string_view text = std::string_view(source_).substr(begin, open - begin);
            emit_data(stripped(text, '%', signed_tag ? sign : '\0'));
            move_to(at + 2);
            end_of_tag(signed_end ? end_sign : '\0', true);
            return;
        }
        fail_template(first_line, "Missing end of raw directive");
    }

    // Tokens up to the end of the tag.
    void expression(bool block) {
        const std::string_view close = block ? "%}" : "}}";
        std::vector<char> open;
        while (true) {
            skip_space();
            if (at_ >= source_.size()) fail_template(line_, "the template ends within a tag");
            const char c = source_[at_];
            if (open.empty()) {
                const bool sign = c == '-' || (c == '+' && block);
                if (starts(close) || (sign && rest().substr(1).starts_with(close))) {
                    add(block ? TokenKind::block_end : TokenKind::variable_end, "");
                    move_to(at_ + close.size() + (sign ? 1 : 0));
                    end_of_tag(sign ? c : '\0', block);
                    return;
                }
            }
            literal(open);
        }
    }

    void literal(std::vector<char>& open) {
        const char c = source_[at_];
        if (is_digit(c)) {
            number();
        } else if (is_name_start(c)) {
            size_t end = at_;
            while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end])))
                ++end;
            add(TokenKind::name, source_.substr(at_, end - at_));
            move_to(end);
        } else if (c == '"' || c == '\'') {
            text(c);
        } else {
            symbol(open);
        }
    }

    void symbol(std::vector<char>& open) {
        const auto known = std::find_if(kSymbols.begin(), kSymbols.end(),
                                        [&](std::string_view symbol) { return starts(symbol); });
        if (known == kSymbols.end()) {
            fail_template(line_, "unexpected char '" + std::string(1, source_[at_]) + "'");
        }
        balance(known->front(), open);
        add(TokenKind::symbol, std::string(*known));
        move_to(at_ + known->size());
    }

    // Within brackets, a closing brace belongs to them and not to the tag.
    void balance(char c, std::vector<char>& open) {
        if (c == '(' || c == '[' || c == '{') open.push_back(c);
        if (c != ')' && c != ']' && c != '}') return;
        const char expected = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != expected) {
            fail_template(line_, std::string("unexpected '") + c + "'");
        }
        open.pop_back();
    }

    void number() {
        size_t end = at_;
        const auto digits = [&](auto&& accept) {
            while (end < source_.size() &&
                   (accept(source_[end]) || (source_[end] == '_' && end + 1 < source_.size() &&
                                             accept(source_[end + 1])))) {
                ++end;
            }
        };
        std::string prefix;
        if (source_[at_] == '0' && at_ + 1 < source_.size()) prefix = source_.substr(at_, 2);
        for (char& c : prefix) c = static_cast<char>(c | 0x20);
        if (prefix == "0x" || prefix == "0o" || prefix == "0b") {
            end += 2;
            digits([&](char c) {
                if (prefix == "0x") return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
                return c >= '0' && c <= (prefix == "0o" ? '7' : '1');
            });
            finish_number(end, TokenKind::integer);
            return;
        }
        digits(is_digit);
        bool real = false;
        if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
            real = true;
            ++end;
            digits(is_digit);
        }
        if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
            size_t exponent = end + 1;
            if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
                ++exponent;
            if (exponent < source_.size() && is_digit(source_[exponent])) {
                real = true;
                end = exponent;
                digits(is_digit);
            }
        }
        finish_number(end, real ? TokenKind::real : TokenKind::integer);
    }

    void finish_number(size_t end, TokenKind kind) {
        std::string digits = source_.substr(at_, end - at_);
        std::erase(digits, '_');
        add(kind, std::move(digits));
        move_to(end);
    }

    void text(char quote) {
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) fail_template(line_, "a string is not closed");
        std::string value = unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
        add(TokenKind::text, std::move(value));
        move_to(end + 1);
    }

    std::string unescaped(std::string_view raw) const {
        std::string out;
        for (size_t i = 0; i < raw.size(); ++i) {
            if (raw[i] != '\\' || i + 1 >= raw.size()) {
                out.push_back(raw[i]);
                continue;
            }
            i = escape(raw, i + 1, out);
        }
        return out;
    }

    // One escape, `at` being behind the backslash; gives the index of its last character.
    size_t escape(std::string_view raw, size_t at, std::string& out) const {
        constexpr std::string_view kLetters = "abfnrtv\\'\"";
        constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
        const char c = raw[at];
        if (const size_t index = kLetters.find(c); index != std::string_view::npos) {
            out.push_back(kValues[index]);
            return at;
        }
        if (c == '\n') return at;
        if (c == 'x' || c == 'u' || c == 'U') {
            const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            char32_t value = 0;
            for (size_t i = 1; i <= length; ++i) {
                const int digit = at + i < raw.size() ? hex(raw[at + i]) : -1;
                if (digit < 0) fail_template(line_, "a string has a broken escape");
                value = value * 16 + static_cast<char32_t>(digit);
            }
            if (value > 0x10FFFF) fail_template(line_, "a string has an escape beyond Unicode");
            utf8::append(out, value);
            return at + length;
        }
        if (c >= '0' && c <= '7') {
            char32_t value = 0;
            size_t end = at;
            while (end < raw.size() && end < at + 3 && raw[end] >= '0' && raw[end] <= '7') {
                value = value * 8 + static_cast<char32_t>(raw[end++] - '0');
            }
            utf8::append(out, value);
            return end - 1;
        }
        if (c == 'N') fail_template(line_, "escapes by character name are not supported");
        out.push_back('\\');
        out.push_back(c);
        return at;
    }

    static int hex(char c) {
        if (is_digit(c)) return c - '0';
        const char lower = static_cast<char>(c | 0x20);
        return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    }

    std::string source_;
    size_t at_ = 0;
    int line_ = 1;
    std::vector<Token> tokens_;
};

}  // namespace

void fail_template(int line, const std::string& why) {
    throw Error(ErrorKind::bad_data, "chat template, line " + std::to_string(line) + ": " + why);
}

std::vector<Token> lex_template(std::string_view source) {
    if (!utf8::is_valid(source)) fail_template(1, "is not UTF-8");
    return Lexer(with_plain_lines(source)).run();
}

}  // namespace nvllm::chat
