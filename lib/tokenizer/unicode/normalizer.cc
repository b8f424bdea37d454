// The normalizers of tokenizer.json and the table of their names.
#include "lib/tokenizer/unicode/normalizer.h"

#include <array>
#include <functional>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/unicode/charsmap.h"
#include "lib/tokenizer/unicode/pattern.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm {
namespace {

// A normalizer that treats each character by itself: `change` calls keep or put.
template <typename Change>
void each_character(NormalizedText& text, Change&& change) {
    Rewriting rewriting(text);
    utf8::for_each(rewriting.source(),
                   [&](char32_t c, size_t at, size_t length) { change(rewriting, c, at, length); });
    rewriting.finish();
}

class Sequence : public Normalizer {
  public:
    explicit Sequence(const JsonView& section) {
        for (const JsonView& part : section.at("normalizers").elements()) {
            parts_.push_back(load_normalizer(part));
        }
    }
    void apply(NormalizedText& text) const override {
        for (const auto& part : parts_) part->apply(text);
    }

  private:
    std::vector<std::unique_ptr<Normalizer>> parts_;
};

// One of Unicode's normal forms, unit by unit (a character and the marks behind it), so that
// origins stay exact.
class NormalForm : public Normalizer {
  public:
    explicit NormalForm(unicode::Form form) : form_(form) {}

    void apply(NormalizedText& text) const override {
        if (utf8::is_ascii(text.text)) return;
        Rewriting rewriting(text);
        const std::string_view source = rewriting.source();
        for (size_t at = 0; at < source.size();) {
            bool settled = true;
            const size_t end = unit_end(source, at, settled);
            if (settled) {
                rewriting.keep(at, end);
            } else {
                rewriting.put(unicode::normal_form(source.substr(at, end - at), form_), at);
            }
            at = end;
        }
        rewriting.finish();
    }

  private:
    bool stays(char32_t c) const {
        if (c < 0x80) return true;
        return form_ == unicode::Form::nfc && unicode::surely_nfc(c);
    }

    size_t unit_end(std::string_view source, size_t at, bool& settled) const {
        bool first = true;
        while (at < source.size()) {
            const utf8::Decoded character = utf8::decode(source.substr(at));
            if (!first && unicode::starts_unit(character.code_point)) break;
            settled = settled && first && stays(character.code_point);
            first = false;
            at += character.length;
        }
        return at;
    }

    unicode::Form form_;
};

class Lowercase : public Normalizer {
  public:
    void apply(NormalizedText& text) const override {
        std::string lower;
        each_character(text, [&](Rewriting& out, char32_t c, size_t at, size_t) {
            lower.clear();
            unicode::append_lower(lower, c);
            out.put(lower, at);
        });
    }
};

class StripAccents : public Normalizer {
  public:
    void apply(NormalizedText& text) const override {
        each_character(text, [](Rewriting& out, char32_t c, size_t at, size_t length) {
            if (!unicode::is_mark(c)) out.keep(at, at + length);
        });
    }
};

class Strip : public Normalizer {
  public:
    explicit Strip(const JsonView& section)
        : left_(section.at("strip_left").boolean()), right_(section.at("strip_right").boolean()) {}

    void apply(NormalizedText& text) const override {
        size_t begin = std::string::npos;
        size_t end = 0;
        utf8::for_each(text.text, [&](char32_t c, size_t at, size_t length) {
            if (unicode::is_white_space(c)) return;
            begin = std::min(begin, at);
            end = at + length;
        });
        const size_t size = text.text.size();
        Rewriting rewriting(text);
        const size_t from = left_ ? std::min(begin, size) : 0;
        rewriting.keep(from, right_ ? std::max(from, end) : size);
        rewriting.finish();
    }

  private:
    bool left_;
    bool right_;
};

class Replace : public Normalizer {
  public:
    explicit Replace(const JsonView& section)
        : pattern_(load_pattern(section.at("pattern"))), content_(section.at("content").string()) {}

    void apply(NormalizedText& text) const override {
        Rewriting rewriting(text);
        const std::string_view source = rewriting.source();
        Regex::Matches matches(pattern_, source);
        size_t done = 0;
        ByteRange match;
        while (matches.next(match)) {
            rewriting.keep(done, match.begin);
            rewriting.put(content_, match.begin);
            done = match.end;
        }
        rewriting.keep(done, source.size());
        rewriting.finish();
    }

  private:
    Regex pattern_;
    std::string content_;
};

class Prepend : public Normalizer {
  public:
    explicit Prepend(const JsonView& section) : text_(section.at("prepend").string()) {}
    void apply(NormalizedText& text) const override {
        if (text.text.empty()) return;
        Rewriting rewriting(text);
        rewriting.put(text_, 0);
        rewriting.keep(0, rewriting.source().size());
        rewriting.finish();
    }

  private:
    std::string text_;
};

class ByteLevelNormalizer : public Normalizer {
  public:
    void apply(NormalizedText& text) const override {
        Rewriting rewriting(text);
        const std::string_view source = rewriting.source();
        for (size_t at = 0; at < source.size(); ++at) {
            rewriting.put(byte_level_character(static_cast<uint8_t>(source[at])), at);
        }
        rewriting.finish();
    }
};

// Cleaning of old machine translation data.
class Nmt : public Normalizer {
  public:
    void apply(NormalizedText& text) const override {
        each_character(text, [](Rewriting& out, char32_t c, size_t at, size_t length) {
            if (is_dropped(c)) return;
            if (is_space(c)) {
                out.put(" ", at);
            } else {
                out.keep(at, at + length);
            }
        });
    }

  private:
    static bool is_dropped(char32_t c) {
        return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
               c == 0x8F || c == 0x9F;
    }
    static bool is_space(char32_t c) {
        return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
               (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
               c == 0xFEFF || c == 0xFFFD;
    }
};

class Bert : public Normalizer {
  public:
    explicit Bert(const JsonView& section)
        : clean_(section.boolean_or("clean_text", true)),
          chinese_(section.boolean_or("handle_chinese_chars", true)),
          lowercase_(section.boolean_or("lowercase", true)),
          strip_accents_(section.boolean_or("strip_accents", lowercase_)) {}

    void apply(NormalizedText& text) const override {
        if (clean_) clean(text);
        if (chinese_) space_ideographs(text);
        if (strip_accents_) {
            NormalForm(unicode::Form::nfd).apply(text);
            each_character(text, [](Rewriting& out, char32_t c, size_t at, size_t length) {
                if (!unicode::is_nonspacing_mark(c)) out.keep(at, at + length);
            });
        }
        if (lowercase_) Lowercase().apply(text);
    }

  private:
    static void clean(NormalizedText& text) {
        each_character(text, [](Rewriting& out, char32_t c, size_t at, size_t length) {
            const bool spacing = c == '\t' || c == '\n' || c == '\r';
            if (c == 0 || c == utf8::kReplacement || (!spacing && unicode::is_other(c))) return;
            if (unicode::is_white_space(c)) {
                out.put(" ", at);
            } else {
                out.keep(at, at + length);
            }
        });
    }
    static void space_ideographs(NormalizedText& text) {
        each_character(text, [](Rewriting& out, char32_t c, size_t at, size_t length) {
            const bool spaced = unicode::is_cjk_ideograph(c);
            if (spaced) out.put(" ", at);
            out.keep(at, at + length);
            if (spaced) out.put(" ", at);
        });
    }

    bool clean_;
    bool chinese_;
    bool lowercase_;
    bool strip_accents_;
};

class Precompiled : public Normalizer {
  public:
    explicit Precompiled(const JsonView& section)
        : map_(Charsmap::from_base64(section.at("precompiled_charsmap"))) {}

    void apply(NormalizedText& text) const override {
        Rewriting rewriting(text);
        const std::string_view source = rewriting.source();
        for (size_t at = 0; at < source.size();) {
            const size_t end = grapheme_end(source, at);
            const auto whole =
                end - at < 6 ? map_.shortest(source.substr(at, end - at)) : std::nullopt;
            if (whole) {
                rewriting.put(*whole, at);
            } else {
                each_part(rewriting, source, at, end);
            }
            at = end;
        }
        rewriting.finish();
    }

  private:
    static size_t grapheme_end(std::string_view source, size_t at) {
        utf8::Decoded before = utf8::decode(source.substr(at));
        at += before.length;
        int state = 0;
        while (at < source.size()) {
            const utf8::Decoded after = utf8::decode(source.substr(at));
            if (unicode::grapheme_break(before.code_point, after.code_point, state)) break;
            before = after;
            at += after.length;
        }
        return at;
    }
    void each_part(Rewriting& out, std::string_view source, size_t begin, size_t end) const {
        utf8::for_each(source.substr(begin, end - begin), [&](char32_t, size_t at, size_t length) {
            const auto mapped = map_.shortest(source.substr(begin + at, length));
            if (mapped) {
                out.put(*mapped, begin + at);
            } else {
                out.keep(begin + at, begin + at + length);
            }
        });
    }

    Charsmap map_;
};

template <typename Kind>
std::unique_ptr<Normalizer> make(const JsonView& section) {
    if constexpr (std::is_constructible_v<Kind, const JsonView&>) {
        return std::make_unique<Kind>(section);
    } else {
        return std::make_unique<Kind>();
    }
}

template <unicode::Form form>
std::unique_ptr<Normalizer> make_form(const JsonView&) {
    return std::make_unique<NormalForm>(form);
}

struct Row {
    std::string_view type;
    std::unique_ptr<Normalizer> (*load)(const JsonView&);
};

constexpr std::array<Row, 14> kRows = {{
    {"Sequence", make<Sequence>},
    {"NFC", make_form<unicode::Form::nfc>},
    {"NFD", make_form<unicode::Form::nfd>},
    {"NFKC", make_form<unicode::Form::nfkc>},
    {"NFKD", make_form<unicode::Form::nfkd>},
    {"Lowercase", make<Lowercase>},
    {"StripAccents", make<StripAccents>},
    {"Strip", make<Strip>},
    {"Replace", make<Replace>},
    {"Prepend", make<Prepend>},
    {"ByteLevel", make<ByteLevelNormalizer>},
    {"Nmt", make<Nmt>},
    {"BertNormalizer", make<Bert>},
    {"Precompiled", make<Precompiled>},
}};

}  // namespace

std::unique_ptr<Normalizer> load_normalizer(const JsonView& section) {
    const std::string type = section.at("type").string();
    for (const Row& row : kRows) {
        if (row.type == type) return row.load(section);
    }
    section.fail("normalizer \"" + type + "\" is not supported");
}

}  // namespace nvllm
