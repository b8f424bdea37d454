// Runs the parts in their order: added tokens, normalizer, pre-tokenizer, model, post-processor.
#include "lib/tokenizer/tokenizer.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/detokenizer.h"
#include "lib/tokenizer/tokenizer_parts.h"

namespace nvllm {
namespace {

// Three times the largest that is known.
constexpr uint64_t kLargestFile = uint64_t{96} << 20;

bool overlaps(std::span<const ByteRange> ranges, ByteRange match) {
    const auto after =
        std::partition_point(ranges.begin(), ranges.end(),
                             [&](const ByteRange& range) { return range.end <= match.begin; });
    return after != ranges.end() && after->begin < match.end;
}

// One call of encode().
class Encoding {
  public:
    Encoding(const TokenizerParts& parts, const EncodeOptions& options)
        : parts_(parts),
          options_(options),
          work_(options.work != nullptr ? *options.work : unused_) {}

    std::vector<int32_t> run(std::string_view text) {
        const auto accept = [&](const AddedToken& token, ByteRange range) {
            return accepts(token, range);
        };
        for (const TextSection& section :
             parts_.added.split(text, AddedTokens::Kind::raw, accept)) {
            if (section.id) {
                ids_.push_back(*section.id);
            } else {
                normalized_section(text, section.range);
            }
        }
        if (!options_.add_special_tokens) return std::move(ids_);
        return parts_.post_processor.apply(std::move(ids_));
    }

  private:
    bool accepts(const AddedToken& token, ByteRange range) const {
        if (!token.special) return true;
        if (parts_.config.splits_special_tokens || !options_.recognise_special_tokens) return false;
        return !overlaps(options_.plain_text, range);
    }

    void normalized_section(std::string_view text, ByteRange range) {
        NormalizedText section(text.substr(range.begin, range.end - range.begin),
                               !options_.plain_text.empty());
        if (parts_.normalizer) parts_.normalizer->apply(section);
        const auto accept = [&](const AddedToken& token, ByteRange match) {
            if (!section.keeps_origins) return accepts(token, match);
            const size_t last = section.origin(match.end - 1) + 1;
            return accepts(token, {range.begin + section.origin(match.begin), range.begin + last});
        };
        const bool at_start = range.begin + section.first_origin == 0;
        for (const TextSection& part :
             parts_.added.split(section.text, AddedTokens::Kind::normalized, accept)) {
            if (part.id) {
                ids_.push_back(*part.id);
            } else {
                const auto view = std::string_view(section.text)
                                      .substr(part.range.begin, part.range.end - part.range.begin);
                pieces(view, at_start && part.range.begin == 0);
            }
        }
    }

    void pieces(std::string_view text, bool at_start) {
        Pieces pieces;
        pieces.list.push_back({text, at_start});
        if (parts_.pre_tokenizer) parts_.pre_tokenizer->apply(pieces);
        for (const Piece& piece : pieces.list) parts_.model->tokenize(piece.text, ids_, work_);
    }

    const TokenizerParts& parts_;
    const EncodeOptions& options_;
    EncodeWork unused_;
    EncodeWork& work_;
    std::vector<int32_t> ids_;
};

TokenizerParts load_format(std::string_view bytes, const std::string& name,
                           const TokenizerConfig& config) {
    const size_t first = bytes.find_first_not_of(" \t\r\n");
    const auto in_format = [](TokenizerFormat format, TokenizerParts parts) {
        parts.format = format;
        return parts;
    };
    if (first != std::string_view::npos && bytes[first] == '{') {
        return in_format(TokenizerFormat::json, load_tokenizer_json(bytes, name, config));
    }
    if (looks_like_tiktoken(bytes)) {
        return in_format(TokenizerFormat::tiktoken, load_tiktoken(bytes, name, config));
    }
    return in_format(TokenizerFormat::sentencepiece, load_sentencepiece(bytes, name, config));
}

TokenizerParts load_parts(std::string_view bytes, const std::string& name,
                          const TokenizerConfig& config) {
    TokenizerParts parts = load_format(bytes, name, config);
    parts.file_name = name;
    return parts;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    size_t done = 0;
    for (size_t at; (at = text.find(from, done)) != std::string_view::npos;
         done = at + from.size()) {
        out += text.substr(done, at - done);
        out += to;
    }
    return out += text.substr(done);
}

// The tokenizer's file in a directory, by the order of preference; empty when there is none.
std::filesystem::path tokenizer_file(const std::filesystem::path& directory) {
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tiktoken.model"}) {
        if (std::filesystem::exists(directory / name)) return directory / name;
    }
    std::vector<std::filesystem::path> others;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        const auto extension = entry.path().extension();
        if (extension == ".tiktoken" || extension == ".model") others.push_back(entry.path());
    }
    std::sort(others.begin(), others.end());
    return others.empty() ? std::filesystem::path() : others.front();
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::make_unique<const TokenizerParts>(std::move(parts))) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& directory) {
    const auto file = tokenizer_file(directory);
    if (file.empty()) return nullptr;
    const TokenizerConfig config = load_tokenizer_config(directory);
    return std::make_shared<Tokenizer>(
        load_parts(read_file(file, kLargestFile), file.string(), config));
}

std::shared_ptr<const Tokenizer> Tokenizer::load_file(const std::filesystem::path& file) {
    return load_bytes(read_file(file, kLargestFile), file.string());
}

std::shared_ptr<const Tokenizer> Tokenizer::load_bytes(std::string_view bytes,
                                                       const std::string& name) {
    return std::make_shared<Tokenizer>(load_parts(bytes, name, {}));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
    if (utf8::is_valid(text)) return Encoding(*parts_, options).run(text);
    return Encoding(*parts_, options).run(utf8::with_replacement(text));
}

EncodedPair Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                   const PairLimits& limits) const {
    const EncodeOptions alone{.add_special_tokens = false};
    return parts_->post_processor.apply_pair(encode(first, alone), encode(second, alone), limits);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
    // The detokenizer lives no longer than this call, so it needs no share in the tokenizer.
    const std::shared_ptr<const Tokenizer> self(std::shared_ptr<void>(), this);
    Detokenizer stream(self, skip_special_tokens);
    std::string text;
    for (const int32_t id : ids) text += stream.append(id);
    return text += stream.finish();
}

std::string Tokenizer::token_text(int32_t id) const {
    return std::string(spelling(id, false).value_or(std::string_view()));
}

std::string Tokenizer::token_bytes(int32_t id) const {
    const std::string text = token_text(id);
    if (parts_->added.token(id) != nullptr) return text;
    switch (parts_->spelling) {
        case TokenSpelling::byte_level:
            return bytes_of_byte_level(text);
        case TokenSpelling::metaspace:
            if (const auto byte = byte_of_token(text))
                return std::string(1, static_cast<char>(*byte));
            return replaced(text, parts_->space_mark, " ");
        case TokenSpelling::word_piece:
            if (text.starts_with(parts_->continuing_prefix)) {
                return text.substr(parts_->continuing_prefix.size());
            }
            return text.empty() ? text : " " + text;
        default:
            return text;
    }
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
    if (const auto added = parts_->added.id(token)) return added;
    return parts_->model->vocabulary().id(token);
}

std::optional<std::string_view> Tokenizer::spelling(int32_t id, bool skip_special_tokens) const {
    std::string_view text;
    if (const AddedToken* added = parts_->added.token(id)) {
        text = added->content;
    } else if (parts_->model->vocabulary().has(id)) {
        text = parts_->model->vocabulary().text(id);
    } else {
        return std::nullopt;
    }
    if (skip_special_tokens && parts_->added.is_special(text)) return std::nullopt;
    return text;
}

bool Tokenizer::is_special(int32_t id) const {
    const auto text = spelling(id, false);
    return text && parts_->added.is_special(*text);
}

int32_t Tokenizer::vocab_size() const {
    return std::max(parts_->model->vocabulary().id_limit(), parts_->added.id_limit());
}

std::optional<int32_t> Tokenizer::bos_id() const {
    return bos_text().empty() ? std::nullopt : token_id(bos_text());
}
std::optional<int32_t> Tokenizer::eos_id() const {
    return eos_text().empty() ? std::nullopt : token_id(eos_text());
}
const std::string& Tokenizer::bos_text() const { return parts_->config.special.text("bos_token"); }
const std::string& Tokenizer::eos_text() const { return parts_->config.special.text("eos_token"); }

std::vector<std::pair<std::string, std::string>> Tokenizer::named_tokens() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const NamedToken& row : parts_->config.special.named) {
        all.emplace_back(row.name, row.token.content);
    }
    return all;
}

TokenizerFormat Tokenizer::format() const { return parts_->format; }

const std::string& Tokenizer::chat_template() const {
    static const std::string kNone;
    const auto found = parts_->config.chat_templates.find("default");
    return found == parts_->config.chat_templates.end() ? kNone : found->second;
}

std::string Tokenizer::chat_template(std::string_view name) const {
    const auto found = parts_->config.chat_templates.find(std::string(name));
    return found == parts_->config.chat_templates.end() ? std::string() : found->second;
}

std::vector<std::string> Tokenizer::chat_template_names() const {
    std::vector<std::string> names;
    for (const auto& [name, source] : parts_->config.chat_templates) names.push_back(name);
    return names;
}

const std::string& Tokenizer::algorithm() const { return parts_->algorithm; }
const std::string& Tokenizer::file_name() const { return parts_->file_name; }

const std::vector<std::string>& Tokenizer::notes() const { return parts_->notes; }
const std::vector<std::unique_ptr<DecoderStage>>& Tokenizer::decoder() const {
    return parts_->decoder;
}

}  // namespace nvllm
