// Character classes over utf8proc's tables (Unicode 15), and normal forms in bounded time.
#include "lib/tokenizer/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/unicode_differences.h"

namespace nvllm::unicode {
namespace {

utf8proc_category_t category(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool in(char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; }

// Letters in circles and squares: category So, but alphabetic.
bool is_enclosed_letter(char32_t c) {
    return in(c, 0x24B6, 0x24E9) || in(c, 0x1F130, 0x1F149) || in(c, 0x1F150, 0x1F169) ||
           in(c, 0x1F170, 0x1F189);
}

bool is_any_mark(char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

int combining_class(char32_t c) {
    if (c < 0x300 || no_mark(c)) return 0;
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// utf8proc's own ordering takes quadratic time on long runs of marks, hence this one.
void order_marks(std::vector<utf8proc_int32_t>& text) {
    for (size_t at = 0; at < text.size();) {
        if (combining_class(static_cast<char32_t>(text[at])) == 0) {
            ++at;
            continue;
        }
        size_t end = at;
        while (end < text.size() && combining_class(static_cast<char32_t>(text[end])) != 0) ++end;
        std::stable_sort(text.begin() + static_cast<ptrdiff_t>(at),
                         text.begin() + static_cast<ptrdiff_t>(end), [](auto left, auto right) {
                             return combining_class(static_cast<char32_t>(left)) <
                                    combining_class(static_cast<char32_t>(right));
                         });
        at = end;
    }
}

std::vector<utf8proc_int32_t> decompose(std::string_view text, bool compatible) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                        (compatible ? UTF8PROC_COMPAT : 0));
    std::vector<utf8proc_int32_t> out;
    out.reserve(text.size());
    utf8::for_each(text, [&](char32_t c, size_t, size_t) {
        if (c < 0x80 || no_decomposition(c)) {
            out.push_back(static_cast<utf8proc_int32_t>(c));
            return;
        }
        utf8proc_int32_t parts[32];
        int boundary = 0;
        const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                                   options, &boundary);
        if (count > 0 && count <= 32) {
            out.insert(out.end(), parts, parts + count);
        } else {
            out.push_back(static_cast<utf8proc_int32_t>(c));
        }
    });
    return out;
}

}  // namespace

bool is_white_space(char32_t c) {
    return in(c, 0x9, 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           in(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

bool is_general_punctuation(char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_punctuation(char32_t c) {
    if (c < 0x80) return in(c, 33, 47) || in(c, 58, 64) || in(c, 91, 96) || in(c, 123, 126);
    return (is_general_punctuation(c) && !no_punctuation(c)) || c == 0x166D || c == 0x111C9;
}

bool is_mark(char32_t c) { return (is_any_mark(c) && !no_mark(c)) || in(c, 0x1CF2, 0x1CF3); }

bool is_nonspacing_mark(char32_t c) {
    return (category(c) == UTF8PROC_CATEGORY_MN && !no_nonspacing_mark(c)) || c == 0x1734;
}

bool is_number(char32_t c) {
    const auto kind = category(c);
    return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) || later_number(c);
}

bool is_decimal_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_letter(char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_uppercase(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lowercase(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_titlecase(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_word(char32_t c) {
    const auto kind = category(c);
    if (c < 0x80) return is_letter(c) || c == '_' || in(c, '0', '9');
    return is_letter(c) || is_any_mark(c) || later_word(c) || kind == UTF8PROC_CATEGORY_ND ||
           kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || c == 0x200C ||
           c == 0x200D || is_enclosed_letter(c);
}

bool is_other(char32_t c) {
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_CC || (kind == UTF8PROC_CATEGORY_CF && !no_other(c)) ||
           kind == UTF8PROC_CATEGORY_CS || kind == UTF8PROC_CATEGORY_CO;
}

bool is_printable(char32_t c) {
    if (c == ' ') return true;
    const auto kind = category(c);
    return !(kind == UTF8PROC_CATEGORY_CN || kind >= UTF8PROC_CATEGORY_ZS);
}

bool is_cjk_ideograph(char32_t c) {
    // The fifth extension starts at 2B920 in the tokenizers this follows.
    return in(c, 0x4E00, 0x9FFF) || in(c, 0x3400, 0x4DBF) || in(c, 0x20000, 0x2A6DF) ||
           in(c, 0x2A700, 0x2B73F) || in(c, 0x2B740, 0x2B81F) || in(c, 0x2B920, 0x2CEAF) ||
           in(c, 0xF900, 0xFAFF) || in(c, 0x2F800, 0x2FA1F);
}

char32_t to_lower(char32_t c) {
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_upper(char32_t c) {
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_title(char32_t c) {
    return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

void append_lower(std::string& out, char32_t c) {
    // The one character whose lower case is two.
    if (c == 0x130) {
        out += "i\xCC\x87";
    } else {
        utf8::append(out, c < 0x80 ? to_lower(c) : to_lower(later_lower(c)));
    }
}

void append_upper(std::string& out, char32_t c) {
    if (c == 0xDF) {
        out += "SS";
    } else {
        utf8::append(out, to_upper(c));
    }
}

bool grapheme_break(char32_t before, char32_t after, int& state) {
    return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                            static_cast<utf8proc_int32_t>(after), &state);
}

std::string normal_form(std::string_view text, Form form) {
    const bool compatible = form == Form::nfkc || form == Form::nfkd;
    auto characters = decompose(text, compatible);
    order_marks(characters);
    auto count = static_cast<utf8proc_ssize_t>(characters.size());
    if (form == Form::nfc || form == Form::nfkc) {
        count = utf8proc_normalize_utf32(
            characters.data(), count,
            static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    }
    std::string out;
    out.reserve(text.size());
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
        utf8::append(out, static_cast<char32_t>(characters[static_cast<size_t>(i)]));
    }
    return out;
}

bool starts_unit(char32_t c) {
    // Vowel and final jamo join the syllable before them; marks reorder and compose.
    return !is_any_mark(c) && !in(c, 0x1100, 0x11FF) && !in(c, 0xFF9E, 0xFF9F);
}

bool surely_nfc(char32_t c) {
    return c < 0x300 || in(c, 0x400, 0x482) || in(c, 0x3041, 0x3096) || in(c, 0x30A1, 0x30FA) ||
           in(c, 0x4E00, 0x9FFF) || in(c, 0xAC00, 0xD7A3) || in(c, 0x2010, 0x2120) ||
           in(c, 0x1F300, 0x1FAFF);
}

}  // namespace nvllm::unicode
