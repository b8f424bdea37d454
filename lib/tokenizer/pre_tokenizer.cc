// The pre-tokenizers of tokenizer.json and the table of their names.
#include "lib/tokenizer/pre_tokenizer.h"

#include <array>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/metaspace.h"
#include "lib/tokenizer/unicode/pattern.h"
#include "lib/tokenizer/unicode/unicode.h"
#include "lib/tokenizer/unicode/unicode_scripts.h"

namespace nvllm {
namespace {

// Replaces each piece by the parts of it that `cut` gives; empty ones are dropped.
template <typename Cut>
void cut_pieces(Pieces& pieces, Cut&& cut) {
    std::vector<Piece> next;
    next.reserve(pieces.list.size());
    for (const Piece& piece : pieces.list) {
        for (const ByteRange& range : cut(piece.text)) {
            if (range.begin >= range.end) continue;
            next.push_back({piece.text.substr(range.begin, range.end - range.begin),
                            piece.at_start && range.begin == 0});
        }
    }
    pieces.list = std::move(next);
}

// Parts by a property of characters: each character that has it is a match of its own.
template <typename Property>
std::vector<SplitPart> parts_by(std::string_view text, Property&& property) {
    std::vector<SplitPart> parts;
    size_t plain = 0;
    utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
        if (!property(c)) return;
        if (plain < at) parts.push_back({{plain, at}, false});
        parts.push_back({{at, at + length}, true});
        plain = at + length;
    });
    if (plain < text.size()) parts.push_back({{plain, text.size()}, false});
    return parts;
}

template <typename Property>
void cut_by(Pieces& pieces, Property&& property, SplitBehaviour behaviour) {
    cut_pieces(pieces, [&](std::string_view text) {
        return join_parts(parts_by(text, property), behaviour);
    });
}

class Sequence : public PreTokenizer {
  public:
    explicit Sequence(const JsonView& section) {
        for (const JsonView& part : section.at("pretokenizers").elements()) {
            parts_.push_back(load_pre_tokenizer(part));
        }
    }
    void apply(Pieces& pieces) const override {
        for (const auto& part : parts_) part->apply(pieces);
    }

  private:
    std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

// GPT-2's: words by its pattern, bytes as printable characters.
class ByteLevel : public PreTokenizer {
  public:
    explicit ByteLevel(const JsonView& section)
        : add_prefix_space_(section.boolean_or("add_prefix_space", true)),
          use_regex_(section.boolean_or("use_regex", true)),
          words_(
              "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
              "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+") {}

    void apply(Pieces& pieces) const override {
        if (add_prefix_space_) {
            for (Piece& piece : pieces.list) {
                if (piece.text.empty() || piece.text[0] == ' ') continue;
                piece.text = pieces.keep(" " + std::string(piece.text));
            }
        }
        if (use_regex_) {
            cut_pieces(pieces, [&](std::string_view text) {
                return join_parts(split_parts(words_, text, false), SplitBehaviour::isolated);
            });
        }
        as_characters(pieces);
    }

  private:
    static void as_characters(Pieces& pieces) {
        size_t total = 0;
        for (const Piece& piece : pieces.list) total += piece.text.size();
        std::string& all = pieces.texts.emplace_back();
        all.reserve(total *
                    2);  // no character of the alphabet is longer: the views below stay valid
        for (Piece& piece : pieces.list) {
            const size_t begin = all.size();
            append_byte_level(all, piece.text);
            piece.text = std::string_view(all).substr(begin);
        }
    }

    bool add_prefix_space_;
    bool use_regex_;
    Regex words_;
};

class Split : public PreTokenizer {
  public:
    explicit Split(const JsonView& section)
        : pattern_(load_pattern(section.at("pattern"))),
          behaviour_(load_split_behaviour(section.at("behavior"))),
          invert_(section.boolean_or("invert", false)) {}

    void apply(Pieces& pieces) const override {
        cut_pieces(pieces, [&](std::string_view text) {
            return join_parts(split_parts(pattern_, text, invert_), behaviour_);
        });
    }

  private:
    Regex pattern_;
    SplitBehaviour behaviour_;
    bool invert_;
};

class MetaspacePreTokenizer : public PreTokenizer {
  public:
    explicit MetaspacePreTokenizer(const JsonView& section)
        : options_(load_metaspace(section)), mark_(Regex::literal(options_.replacement)) {}

    void apply(Pieces& pieces) const override {
        for (Piece& piece : pieces.list) piece.text = pieces.keep(marked(piece));
        if (!options_.split) return;
        cut_pieces(pieces, [&](std::string_view text) {
            return join_parts(split_parts(mark_, text, false), SplitBehaviour::merged_with_next);
        });
    }

  private:
    std::string marked(const Piece& piece) const {
        std::string out;
        for (const char c : piece.text) {
            if (c == ' ') {
                out += options_.replacement;
            } else {
                out.push_back(c);
            }
        }
        const bool wanted = options_.prepend == PrependScheme::always ||
                            (options_.prepend == PrependScheme::first && piece.at_start);
        if (wanted && !out.starts_with(options_.replacement)) out = options_.replacement + out;
        return out;
    }

    MetaspaceOptions options_;
    Regex mark_;
};

class Bert : public PreTokenizer {
  public:
    void apply(Pieces& pieces) const override {
        cut_by(pieces, unicode::is_white_space, SplitBehaviour::removed);
        cut_by(pieces, unicode::is_punctuation, SplitBehaviour::isolated);
    }
};

// Runs of word characters, and runs of what is neither those nor space.
class Whitespace : public PreTokenizer {
  public:
    void apply(Pieces& pieces) const override { cut_pieces(pieces, runs); }

  private:
    static int kind_of(char32_t c) {
        if (unicode::is_word(c)) return 1;
        return unicode::is_white_space(c) ? 0 : 2;
    }
    static std::vector<ByteRange> runs(std::string_view text) {
        std::vector<ByteRange> found;
        int current = 0;
        utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
            const int kind = kind_of(c);
            if (kind != 0 && kind == current) {
                found.back().end = at + length;
            } else if (kind != 0) {
                found.push_back({at, at + length});
            }
            current = kind;
        });
        return found;
    }
};

class WhitespaceSplit : public PreTokenizer {
  public:
    void apply(Pieces& pieces) const override {
        cut_by(pieces, unicode::is_white_space, SplitBehaviour::removed);
    }
};

class Punctuation : public PreTokenizer {
  public:
    explicit Punctuation(const JsonView& section) {
        if (const auto behaviour = section.find("behavior")) {
            behaviour_ = load_split_behaviour(*behaviour);
        }
    }
    void apply(Pieces& pieces) const override {
        cut_by(pieces, unicode::is_punctuation, behaviour_);
    }

  private:
    SplitBehaviour behaviour_ = SplitBehaviour::isolated;
};

class Digits : public PreTokenizer {
  public:
    explicit Digits(const JsonView& section)
        : behaviour_(section.boolean_or("individual_digits", false) ? SplitBehaviour::isolated
                                                                    : SplitBehaviour::contiguous) {}
    void apply(Pieces& pieces) const override { cut_by(pieces, unicode::is_number, behaviour_); }

  private:
    SplitBehaviour behaviour_;
};

class CharDelimiterSplit : public PreTokenizer {
  public:
    explicit CharDelimiterSplit(const JsonView& section)
        : delimiter_(Regex::literal(section.at("delimiter").string())) {}
    void apply(Pieces& pieces) const override {
        cut_pieces(pieces, [&](std::string_view text) {
            return join_parts(split_parts(delimiter_, text, false), SplitBehaviour::removed);
        });
    }

  private:
    Regex delimiter_;
};

// Runs of one script; what has none belongs to the run before it, and is lost where there is none.
class UnicodeScripts : public PreTokenizer {
  public:
    void apply(Pieces& pieces) const override { cut_pieces(pieces, runs); }

  private:
    static std::vector<ByteRange> runs(std::string_view text) {
        std::vector<ByteRange> found;
        int current = 0;
        utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
            const int script = unicode::script_class(c);
            if (script != 0 && script != current) {
                found.push_back({at, at});
                current = script;
            }
            if (!found.empty()) found.back().end = at + length;
        });
        return found;
    }
};

// Pieces of so many characters.
class FixedLength : public PreTokenizer {
  public:
    explicit FixedLength(const JsonView& section)
        : length_(section.integer_or("length", kUsualLength)) {
        if (length_ < 1) section.fail("\"length\" should be 1 or more");
    }
    void apply(Pieces& pieces) const override {
        cut_pieces(pieces, [this](std::string_view text) {
            std::vector<ByteRange> found;
            int64_t left = 0;  // characters that the last piece still takes
            utf8::for_each(text, [&](char32_t, size_t at, size_t length) {
                if (left == 0) found.push_back({at, at});
                left = (left == 0 ? length_ : left) - 1;
                found.back().end = at + length;
            });
            return found;
        });
    }

  private:
    static constexpr int64_t kUsualLength = 5;
    int64_t length_;
};

template <typename Kind>
std::unique_ptr<PreTokenizer> make(const JsonView& section) {
    if constexpr (std::is_constructible_v<Kind, const JsonView&>) {
        return std::make_unique<Kind>(section);
    } else {
        return std::make_unique<Kind>();
    }
}

struct Row {
    std::string_view type;
    std::unique_ptr<PreTokenizer> (*load)(const JsonView&);
};

constexpr std::array<Row, 12> kRows = {{
    {"Sequence", make<Sequence>},
    {"ByteLevel", make<ByteLevel>},
    {"Split", make<Split>},
    {"Metaspace", make<MetaspacePreTokenizer>},
    {"BertPreTokenizer", make<Bert>},
    {"Whitespace", make<Whitespace>},
    {"WhitespaceSplit", make<WhitespaceSplit>},
    {"Punctuation", make<Punctuation>},
    {"Digits", make<Digits>},
    {"CharDelimiterSplit", make<CharDelimiterSplit>},
    {"UnicodeScripts", make<UnicodeScripts>},
    {"FixedLength", make<FixedLength>},
}};

}  // namespace

std::unique_ptr<PreTokenizer> load_pre_tokenizer(const JsonView& section) {
    const std::string type = section.at("type").string();
    for (const Row& row : kRows) {
        if (row.type == type) return row.load(section);
    }
    section.fail("pre-tokenizer \"" + type + "\" is not supported");
}

}  // namespace nvllm
