// tiktoken's rank files: base64 bytes and a rank per line, with the word pattern known by the
// number of ranks.
#include <algorithm>
#include <array>
#include <charconv>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/piece_merge.h"
#include "lib/tokenizer/tokenizer_parts.h"
#include "lib/tokenizer/unicode/charsmap.h"
#include "lib/tokenizer/unicode/pattern.h"

namespace nvllm {
namespace {

constexpr std::string_view kGpt2 =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kCl100k =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kQwen =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kKimi =
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct KnownSpecial {
    std::string_view text;
    int32_t id;
};

// The rank files in use, recognized by their number of ranks.
struct KnownRanks {
    size_t count;
    std::string_view pattern;
    bool adds_bos;  // when tokenizer_config.json does not say
    std::array<KnownSpecial, 2> specials;
};

constexpr std::array<KnownRanks, 6> kKnown = {{
    {50256, kGpt2, false, {{{"<|endoftext|>", 50256}, {"", 0}}}},
    {100256, kCl100k, false, {{{"<|endoftext|>", 100257}, {"<|endofprompt|>", 100276}}}},
    {128000, kCl100k, true, {{{"<|begin_of_text|>", 128000}, {"<|end_of_text|>", 128001}}}},
    {151643, kQwen, false, {{{"<|endoftext|>", 151643}, {"", 0}}}},
    {163584, kKimi, false, {{{"[BOS]", 163584}, {"[EOS]", 163585}}}},
    {199998, kO200k, false, {{{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}},
}};

struct RankLine {
    std::string bytes;
    int64_t rank = 0;
};

std::optional<RankLine> parse_line(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0) return std::nullopt;
    auto bytes = decode_base64(line.substr(0, space));
    const std::string_view digits = line.substr(space + 1);
    RankLine result;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), result.rank);
    if (!bytes || bytes->empty() || error != std::errc() || end != digits.data() + digits.size()) {
        return std::nullopt;
    }
    result.bytes = std::move(*bytes);
    return result;
}

// Token spellings are kept in byte-level characters, as tokenizer.json has them.
Vocabulary read_ranks(std::string_view text, const std::string& name) {
    Vocabulary vocabulary;
    size_t line_number = 0;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        ++line_number;
        if (line.empty()) continue;
        const auto parsed = parse_line(line);
        if (!parsed) {
            throw Error(ErrorKind::bad_data, name + ": line " + std::to_string(line_number) +
                                                 " is not base64 bytes and a rank");
        }
        std::string spelling;
        append_byte_level(spelling, parsed->bytes);
        try {
            vocabulary.add(std::move(spelling), parsed->rank);
        } catch (const Error& error) {
            throw Error(ErrorKind::bad_data,
                        name + ": line " + std::to_string(line_number) + ": " + error.what());
        }
    }
    return vocabulary;
}

// Merges the bytes of a word: the pair of lowest rank first. Pieces come in byte-level characters.
class TiktokenModel : public TokenModel {
  public:
    explicit TiktokenModel(Vocabulary vocabulary, const std::string& name)
        : TokenModel(std::move(vocabulary)) {
        for (int byte = 0; byte < 256; ++byte) {
            if (vocabulary_.id(byte_level_character(static_cast<uint8_t>(byte)))) continue;
            throw Error(ErrorKind::bad_data,
                        name + ": byte " + std::to_string(byte) + " has no rank");
        }
    }

    void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                  EncodeWork& work) const override {
        if (piece.empty()) return;
        if (const auto whole = vocabulary_.id(piece)) {
            ids.push_back(*whole);
            return;
        }
        std::vector<MergeSymbol> symbols;
        symbols.reserve(piece.size());
        for (size_t at = 0; at < piece.size();) {
            const size_t length = utf8::length_from_lead(static_cast<unsigned char>(piece[at]));
            append_symbol(symbols, at, length, false);
            at += length;
        }
        const auto order_of = [&](std::string_view joined) -> std::optional<double> {
            const auto id = vocabulary_.id(joined);
            if (!id) return std::nullopt;
            return static_cast<double>(*id);
        };
        merge_symbols(
            piece, symbols, vocabulary_.longest(), order_of,
            [](const MergeSymbol&, std::string_view) {}, work);
        for (const MergeSymbol& symbol : symbols) {
            if (symbol.length > 0) ids.push_back(*vocabulary_.id(symbol.text_in(piece)));
        }
    }
};

// Words by a pattern, then bytes as byte-level characters.
class TiktokenWords : public PreTokenizer {
  public:
    explicit TiktokenWords(std::string_view pattern) : pattern_(pattern) {}
    void apply(Pieces& pieces) const override {
        std::vector<Piece> words;
        for (const Piece& piece : pieces.list) {
            size_t total = 0;
            const auto parts = split_parts(pattern_, piece.text, false);
            for (const SplitPart& part : parts) total += part.range.end - part.range.begin;
            std::string& all = pieces.texts.emplace_back();
            all.reserve(total * 2);  // no byte-level character is longer: views into it stay valid
            for (const SplitPart& part : parts) {
                const size_t begin = all.size();
                append_byte_level(
                    all, piece.text.substr(part.range.begin, part.range.end - part.range.begin));
                words.push_back({std::string_view(all).substr(begin), false});
            }
        }
        pieces.list = std::move(words);
    }

  private:
    Regex pattern_;
};

void add_special_tokens(const KnownRanks* known, TokenizerParts& parts) {
    for (const auto& [id, token] : parts.config.added_tokens) {
        if (!parts.added.id(token.content)) parts.added.add_with_id(token, id);
    }
    if (!parts.config.added_tokens.empty() || known == nullptr) return;
    for (const KnownSpecial& special : known->specials) {
        if (special.text.empty()) continue;
        AddedToken token;
        token.content = special.text;
        token.special = true;
        parts.added.add_with_id(token, special.id);
    }
}

}  // namespace

bool looks_like_tiktoken(std::string_view bytes) {
    return parse_line(bytes.substr(0, bytes.find('\n'))).has_value();
}

TokenizerParts load_tiktoken(std::string_view text, const std::string& name,
                             const TokenizerConfig& config) {
    TokenizerParts parts;
    parts.config = config;
    parts.notes = config.notes;
    parts.algorithm = "tiktoken BPE";
    auto vocabulary = read_ranks(text, name);
    const auto row = std::find_if(kKnown.begin(), kKnown.end(), [&](const KnownRanks& known) {
        return known.count == vocabulary.num_tokens();
    });
    const KnownRanks* known = row == kKnown.end() ? nullptr : &*row;
    if (known == nullptr) {
        parts.notes.push_back(
            "the number of ranks is not a known one: words are cut as for cl100k");
    }
    parts.model = std::make_unique<TiktokenModel>(std::move(vocabulary), name);
    parts.pre_tokenizer = std::make_unique<TiktokenWords>(known ? known->pattern : kCl100k);
    parts.decoder = byte_level_decoder();
    parts.spelling = TokenSpelling::byte_level;
    add_special_tokens(known, parts);
    parts.added.prepare(nullptr);
    const bool adds_bos = config.add_bos.value_or(known != nullptr && known->adds_bos);
    const std::string named = config.special.text("bos_token");
    const std::string bos =
        named.empty() && known != nullptr ? std::string(known->specials[0].text) : named;
    if (const auto id = parts.added.id(bos); adds_bos && id) parts.post_processor.before = {*id};
    return parts;
}

}  // namespace nvllm
