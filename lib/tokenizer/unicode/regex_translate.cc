// Rewrites patterns from Oniguruma's notation into PCRE2's, where the two differ in meaning.
#include <array>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "lib/tokenizer/unicode/regex.h"
#include "lib/tokenizer/unicode/unicode_differences.h"

namespace nvllm {
namespace {

// White_Space as ranges within a class; PCRE2's own \s also holds U+180E.
constexpr std::string_view kSpaces = "\\t-\\r\\x{85}\\p{Z}";
// Alphabetic, marks, digits, connectors; PCRE2's own \w is narrower.
constexpr std::string_view kWordCharacters =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}"
    "\\x{1F170}-\\x{1F189}";
// What Oniguruma's bare \w holds besides; within a class it does not.
constexpr std::string_view kBareWordCharacters = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

struct LongName {
    std::string_view name;
    std::string_view category;
};

// Long names of general categories, which PCRE2 does not know.
constexpr std::array<LongName, 14> kLongNames = {{
    {"Letter", "L"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Punctuation", "P"},
    {"Punct", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
    {"Other", "C"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Decimal_Number", "Nd"},
}};

// Properties that are neither a category nor a script.
constexpr std::array<std::string_view, 6> kBinaryProperties = {
    "Any", "Alphabetic", "White_Space", "Uppercase", "Lowercase", "Emoji"};

// One pass over a pattern; classes are translated by a nested pass.
class Translator {
  public:
    Translator(std::string_view pattern, bool recent) : pattern_(pattern), recent_(recent) {}

    std::string run() {
        std::string out;
        while (at_ < pattern_.size()) {
            const char c = pattern_[at_];
            if (c == '\\') {
                out += escape(false);
            } else if (c == '[') {
                out += character_class(0);
            } else {
                out.push_back(c);
                ++at_;
            }
        }
        return out;
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorKind::bad_data, "pattern \"" + std::string(pattern_) + "\" at byte " +
                                             std::to_string(at_) + ": " + why);
    }

    // "\\p{L}" outside or inside a class, with the characters that are newer than PCRE2's tables
    // where asked.
    std::string property(bool in_class) {
        const char letter = pattern_[at_ + 1];
        const size_t close = pattern_.find('}', at_);
        if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' ||
            close == std::string_view::npos) {
            refuse("a property is written \\p{Name}");
        }
        std::string name(pattern_.substr(at_ + 3, close - at_ - 3));
        bool negated = letter == 'P';
        if (!name.empty() && name[0] == '^') {
            negated = !negated;
            name.erase(0, 1);
        }
        at_ = close + 1;
        const std::string known = property_name(name);
        const std::string more = recent_ ? unicode::recent_members(known) : std::string();
        // A complement within a class cannot be said with the newer ones.
        if (more.empty() || (negated && in_class)) return (negated ? "\\P{" : "\\p{") + known + "}";
        const std::string members = "\\p{" + known + "}" + more;
        return in_class ? members : (negated ? "[^" : "[") + members + "]";
    }

    static std::string property_name(const std::string& name) {
        for (const LongName& row : kLongNames) {
            if (row.name == name) return std::string(row.category);
        }
        for (const std::string_view known : kBinaryProperties) {
            if (known == name) return name;
        }
        // PCRE2 takes a bare script name as Script_Extensions.
        return name.size() <= 2 ? name : "sc:" + name;
    }

    // An escape outside (in_class false) or inside a class.
    std::string escape(bool in_class) {
        if (at_ + 1 >= pattern_.size()) refuse("a backslash ends the pattern");
        const char letter = pattern_[at_ + 1];
        if (letter == 'p' || letter == 'P') return property(in_class);
        std::string members;
        bool negated = false;
        switch (letter) {
            case 's':
                members = kSpaces;
                break;
            case 'S':
                members = kSpaces;
                negated = true;
                break;
            case 'w':
                members = kWordCharacters;
                break;
            case 'W':
                members = kWordCharacters;
                negated = true;
                break;
            case 'd':
                members = "\\p{Nd}";
                break;
            case 'D':
                members = "\\p{Nd}";
                negated = true;
                break;
            case 'h':
                members = kHexDigits;
                break;
            case 'H':
                members = kHexDigits;
                negated = true;
                break;
            default:
                break;
        }
        if (members.empty()) {
            std::string kept(pattern_.substr(at_, 2));
            at_ += 2;
            return kept;
        }
        at_ += 2;
        if (!in_class && (letter == 'w' || letter == 'W')) members += kBareWordCharacters;
        if (recent_ && (letter == 'w' || letter == 'W')) {
            members += unicode::recent_members("L") + unicode::recent_members("M");
        }
        if (recent_ && std::string_view("wWdD").find(letter) != std::string_view::npos) {
            members += unicode::recent_members("Nd");
        }
        if (!in_class) return (negated ? "[^" : "[") + members + "]";
        // A complement inside a class has no exact form for \s; the difference is U+180E only.
        return negated ? std::string("\\") + letter : members;
    }

    struct ClassText {
        std::string text;  // what matches one character
        bool negated = false;
        std::string members;
    };

    // A class, from its "[" to its "]"; the text given back matches exactly one character.
    std::string character_class(int depth) { return parse_class(depth).text; }

    ClassText parse_class(int depth) {
        if (depth > 8) refuse("classes are nested too deeply");
        ClassText result;
        std::vector<ClassText> also;  // further operands of &&
        ++at_;
        if (at_ < pattern_.size() && pattern_[at_] == '^') {
            result.negated = true;
            ++at_;
        }
        bool first = true;
        while (true) {
            if (at_ >= pattern_.size()) refuse("a class is not closed");
            const char c = pattern_[at_];
            if (c == ']' && !first) break;
            first = false;
            if (c == '\\') {
                result.members += escape(true);
            } else if (c == '&' && pattern_.substr(at_, 2) == "&&") {
                at_ += 2;
                if (at_ >= pattern_.size() || pattern_[at_] != '[') {
                    refuse("after && only a class in brackets is understood");
                }
                also.push_back(parse_class(depth + 1));
                if (at_ >= pattern_.size() || (pattern_[at_] != ']' && pattern_[at_] != '&')) {
                    refuse("after && only one class is understood");
                }
            } else if (c == '[' && pattern_.substr(at_, 2) == "[:") {
                const size_t close = pattern_.find(":]", at_);
                if (close == std::string_view::npos) refuse("a class [: is not closed");
                result.members += pattern_.substr(at_, close + 2 - at_);
                at_ = close + 2;
            } else if (c == '[') {
                const ClassText inner = parse_class(depth + 1);
                if (inner.negated || inner.members.empty()) {
                    refuse("a negated class within a class is not understood");
                }
                result.members += inner.members;
            } else {
                if (c == ']') result.members += "\\";
                result.members.push_back(c);
                ++at_;
            }
        }
        ++at_;
        result.text = (result.negated ? "[^" : "[") + result.members + "]";
        if (also.empty()) return result;
        if (result.negated) refuse("a negated class with && is not understood");
        std::string looks;
        for (const ClassText& operand : also) looks += "(?=" + operand.text + ")";
        result.text = "(?:" + looks + result.text + ")";
        result.members.clear();
        return result;
    }

    std::string_view pattern_;
    bool recent_;
    size_t at_ = 0;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, bool recent_characters) {
    return Translator(pattern, recent_characters).run();
}

}  // namespace nvllm
