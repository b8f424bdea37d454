// SentencePiece models as tokenizers: the library's own normalization, segmentation and decoding.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/piece_merge.h"
#include "lib/tokenizer/sentencepiece_model.h"
#include "lib/tokenizer/tokenizer_parts.h"
#include "lib/tokenizer/unicode/charsmap.h"
#include "lib/tokenizer/unigram.h"

namespace nvllm {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
constexpr float kUnknownPenalty = 10.0f;

// Pieces that the user gave: they are neither normalized nor cut.
PrefixTrie user_defined(const SentencePieceFile& file) {
    PrefixTrie trie;
    for (size_t i = 0; i < file.pieces.size(); ++i) {
        if (file.pieces[i].type != PieceType::user_defined) continue;
        trie.insert(file.pieces[i].text, static_cast<int32_t>(i));
    }
    return trie;
}

class SentencePieceNormalizer : public Normalizer {
  public:
    SentencePieceNormalizer(const SentencePieceFile& file, const std::string& name)
        : map_(file.charsmap, name),
          user_defined_(user_defined(file)),
          dummy_prefix_(file.add_dummy_prefix),
          remove_extra_(file.remove_extra_whitespaces),
          space_(file.escape_whitespaces ? kSpaceMark : " "),
          as_suffix_(file.treat_whitespace_as_suffix) {}

    void apply(NormalizedText& text) const override {
        Rewriting out(text);
        const std::string_view source = out.source();
        size_t at = remove_extra_ ? skip_leading_spaces(source) : 0;
        if (at == source.size()) {
            out.finish();
            return;
        }
        if (dummy_prefix_ && !as_suffix_) out.put(space_, at);
        // Spaces at the end are held back, since those there may be removed.
        size_t waiting = 0;
        size_t waiting_from = at;
        bool after_space = remove_extra_;
        while (at < source.size()) {
            const Step step = next(source.substr(at));
            std::string_view piece = step.text;
            while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
            for (const char c : piece) {
                if (c == ' ') {
                    if (waiting++ == 0) waiting_from = at;
                    continue;
                }
                for (; waiting > 0; --waiting) out.put(space_, waiting_from);
                out.put({&c, 1}, at);
            }
            if (!piece.empty()) after_space = remove_extra_ && piece.ends_with(' ');
            at += step.length;
        }
        if (remove_extra_) waiting = 0;
        for (; waiting > 0; --waiting) out.put(space_, waiting_from);
        if (dummy_prefix_ && as_suffix_) out.put(space_, source.size());
        out.finish();
    }

  private:
    struct Step {
        std::string_view text;
        size_t length;
    };
    Step next(std::string_view rest) const {
        if (const auto kept = user_defined_.longest(rest))
            return {rest.substr(0, kept->length), kept->length};
        if (const auto mapped = map_.longest(rest)) return {mapped->replacement, mapped->length};
        const size_t length = utf8::length_from_lead(static_cast<unsigned char>(rest[0]));
        return {rest.substr(0, length), length};
    }
    size_t skip_leading_spaces(std::string_view source) const {
        size_t at = 0;
        while (at < source.size()) {
            const Step step = next(source.substr(at));
            if (step.text != " ") break;
            at += step.length;
        }
        return at;
    }

    Charsmap map_;
    PrefixTrie user_defined_;
    bool dummy_prefix_;
    bool remove_extra_;
    std::string space_;
    bool as_suffix_;
};

Vocabulary vocabulary_of(const SentencePieceFile& file) {
    Vocabulary vocabulary;
    for (const SentencePieceEntry& piece : file.pieces) vocabulary.push_back(piece.text);
    return vocabulary;
}

// What both algorithms share: the pieces that text can become, and what to do with the rest.
class SentencePieceModel : public TokenModel {
  protected:
    SentencePieceModel(const SentencePieceFile& file, const std::string& name)
        : TokenModel(vocabulary_of(file)),
          pieces_(file.pieces),
          byte_fallback_(file.byte_fallback) {
        for (size_t i = 0; i < pieces_.size(); ++i) {
            const auto id = static_cast<int32_t>(i);
            if (pieces_[i].type == PieceType::unknown) unknown_id_ = id;
            if (const auto byte = byte_of_token(pieces_[i].text);
                byte && pieces_[i].type == PieceType::byte) {
                byte_ids_[*byte] = id;
            }
        }
        if (unknown_id_ < 0) throw Error(ErrorKind::bad_data, name + ": has no unknown piece");
    }

    bool is_text(int32_t id) const {
        const PieceType type = pieces_[static_cast<size_t>(id)].type;
        return type == PieceType::normal || type == PieceType::user_defined ||
               type == PieceType::unused;
    }
    bool is_unused(int32_t id) const {
        return pieces_[static_cast<size_t>(id)].type == PieceType::unused;
    }

    // Text that is no piece: bytes, or the unknown piece, one for neighbours.
    void add_unknown(std::string_view text, bool after_unknown, std::vector<int32_t>& ids) const {
        const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
        if (byte_fallback_ &&
            std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; })) {
            for (const char c : text) ids.push_back(id_of(c));
        } else if (!after_unknown) {
            ids.push_back(unknown_id_);
        }
    }

    std::vector<SentencePieceEntry> pieces_;
    bool byte_fallback_;
    int32_t unknown_id_ = -1;
    std::vector<int32_t> byte_ids_ = std::vector<int32_t>(256, -1);
};

class SentencePieceBpe : public SentencePieceModel {
  public:
    SentencePieceBpe(const SentencePieceFile& file, const std::string& name)
        : SentencePieceModel(file, name), user_defined_(user_defined(file)) {}

    void tokenize(std::string_view text, std::vector<int32_t>& ids,
                  EncodeWork& work) const override {
        std::vector<MergeSymbol> symbols;
        symbols.reserve(text.size());
        for (size_t at = 0; at < text.size();) {
            const auto kept = user_defined_.longest(text.substr(at));
            const size_t length =
                kept ? kept->length : utf8::length_from_lead(static_cast<unsigned char>(text[at]));
            append_symbol(symbols, at, length, kept.has_value());
            at += length;
        }
        Splits splits;
        const auto order_of = [&](std::string_view joined) -> std::optional<double> {
            const auto id = vocabulary_.id(joined);
            if (!id || !is_text(*id)) return std::nullopt;
            return -static_cast<double>(pieces_[static_cast<size_t>(*id)].score);
        };
        const auto remember = [&](const MergeSymbol& left, std::string_view joined) {
            if (is_unused(*vocabulary_.id(joined))) splits[joined] = left.length;
        };
        merge_symbols(text, symbols, vocabulary_.longest(), order_of, remember, work);
        bool after_unknown = false;
        for (const MergeSymbol& symbol : symbols) {
            if (symbol.length > 0) emit(symbol.text_in(text), splits, after_unknown, ids, 0);
        }
    }

  private:
    // How an unused piece came about: the length of its left side.
    using Splits = std::unordered_map<std::string_view, uint32_t>;

    void emit(std::string_view text, const Splits& splits, bool& after_unknown,
              std::vector<int32_t>& ids, int depth) const {
        const auto id = vocabulary_.id(text);
        if (!id || *id == unknown_id_) {
            add_unknown(text, after_unknown, ids);
            after_unknown = true;
            return;
        }
        const auto split = is_unused(*id) ? splits.find(text) : splits.end();
        if (split == splits.end() || depth > 256) {
            ids.push_back(*id);
            after_unknown = false;
            return;
        }
        emit(text.substr(0, split->second), splits, after_unknown, ids, depth + 1);
        emit(text.substr(split->second), splits, after_unknown, ids, depth + 1);
    }

    PrefixTrie user_defined_;
};

class SentencePieceUnigram : public SentencePieceModel {
  public:
    SentencePieceUnigram(const SentencePieceFile& file, const std::string& name)
        : SentencePieceModel(file, name) {
        float lowest = std::numeric_limits<float>::max();
        float highest = std::numeric_limits<float>::lowest();
        for (const SentencePieceEntry& piece : pieces_) {
            if (piece.type != PieceType::normal) continue;
            lowest = std::min(lowest, piece.score);
            highest = std::max(highest, piece.score);
        }
        unknown_score_ = lowest - kUnknownPenalty;
        for (size_t i = 0; i < pieces_.size(); ++i) {
            const auto id = static_cast<int32_t>(i);
            scores_.push_back(score_of(pieces_[i], highest));
            if (is_text(id) && !is_unused(id)) trie_.insert(pieces_[i].text, id);
        }
    }

    void tokenize(std::string_view text, std::vector<int32_t>& ids,
                  EncodeWork& work) const override {
        bool after_unknown = false;
        for (const UnigramToken& token :
             best_segmentation<float>(text, trie_, scores_, unknown_score_, work)) {
            if (token.unknown) {
                add_unknown(text.substr(token.begin, token.end - token.begin), after_unknown, ids);
            } else {
                ids.push_back(token.id);
            }
            after_unknown = token.unknown;
        }
    }

  private:
    static float score_of(const SentencePieceEntry& piece, float highest) {
        if (piece.type != PieceType::user_defined) return piece.score;
        return static_cast<float>(static_cast<float>(piece.text.size()) * highest - 0.1);
    }

    PrefixTrie trie_;
    std::vector<float> scores_;
    float unknown_score_ = 0;
};

// Control pieces are special tokens; the files next to the model may name more.
void add_special_pieces(const SentencePieceFile& file, TokenizerParts& parts) {
    for (size_t i = 0; i < file.pieces.size(); ++i) {
        const PieceType type = file.pieces[i].type;
        if (type != PieceType::control && type != PieceType::unknown) continue;
        AddedToken token;
        token.content = file.pieces[i].text;
        token.special = true;
        parts.added.add(token, parts.model->vocabulary());
    }
    for (auto [id, token] : parts.config.added_tokens) {
        if (parts.added.id(token.content)) continue;
        if (parts.added.token(id) != nullptr) continue;
        // added_tokens.json has no flags: its tokens are found in the text as it is.
        if (!parts.config.has_added_tokens_decoder) token.normalized = false;
        parts.added.add_with_id(token, id);
    }
}

void frame(const SentencePieceFile& file, TokenizerParts& parts) {
    const TokenizerConfig& config = parts.config;
    const bool bpe = file.algorithm == SentencePieceFile::Algorithm::bpe;
    const auto control = [&](const std::string& wanted,
                             std::string_view usual) -> std::optional<int32_t> {
        const std::string text = wanted.empty() ? std::string(usual) : wanted;
        const auto id = parts.added.id(text);
        return id;
    };
    if (config.add_bos.value_or(bpe)) {
        if (const auto id = control(config.special.text("bos_token"), "<s>"))
            parts.post_processor.before = {*id};
    }
    if (config.add_eos.value_or(false)) {
        if (const auto id = control(config.special.text("eos_token"), "</s>"))
            parts.post_processor.behind = {*id};
    }
    for (const auto& [name, text] : {std::pair("bos_token", "<s>"), {"eos_token", "</s>"}}) {
        if (parts.added.id(text)) parts.config.special.name_if_unnamed(name, text);
    }
}

}  // namespace

TokenizerParts load_sentencepiece(std::string_view bytes, const std::string& name,
                                  const TokenizerConfig& config) {
    SentencePieceFile file = read_sentencepiece_file(bytes, name);
    const ClassOptions& options = config.class_options;
    if (options.add_prefix_space) file.add_dummy_prefix = *options.add_prefix_space;
    TokenizerParts parts;
    parts.config = config;
    parts.notes = config.notes;
    switch (file.algorithm) {
        case SentencePieceFile::Algorithm::bpe:
            parts.algorithm = "SentencePiece BPE";
            parts.model = std::make_unique<SentencePieceBpe>(file, name);
            break;
        case SentencePieceFile::Algorithm::unigram:
            parts.algorithm = "SentencePiece Unigram";
            parts.model = std::make_unique<SentencePieceUnigram>(file, name);
            break;
        default:
            throw Error(ErrorKind::bad_data,
                        name + ": SentencePiece models of words or characters are not supported");
    }
    parts.normalizer = std::make_unique<SentencePieceNormalizer>(file, name);
    parts.spelling = TokenSpelling::metaspace;
    SentencePieceDecoding decoding;
    decoding.drop_leading_space = file.add_dummy_prefix || file.remove_extra_whitespaces;
    decoding.drop_leading_spaces = file.remove_extra_whitespaces;
    for (const SentencePieceEntry& piece : file.pieces) {
        if (piece.type == PieceType::unknown) decoding.unknown_piece = piece.text;
    }
    // A checkpoint whose only tokenizer is of this kind is Llama's or Mistral's, and transformers
    // shows their unknown token by its name; the SentencePiece library shows the file's surface.
    const bool bpe = file.algorithm == SentencePieceFile::Algorithm::bpe;
    decoding.unknown_surface = bpe ? decoding.unknown_piece : file.unknown_surface;
    parts.decoder = sentencepiece_decoder(decoding);
    add_special_pieces(file, parts);
    frame(file, parts);
    parts.added.prepare(parts.normalizer.get());
    return parts;
}

}  // namespace nvllm
