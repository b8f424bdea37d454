// tokenizer.json, the format of the Hugging Face tokenizers library, into the parts of a tokenizer.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/text/bpe.h"
#include "lib/text/tokenizer_parts.h"
#include "lib/text/unigram.h"
#include "lib/text/word_models.h"

namespace nvllm {
namespace {

int64_t token_id(const JsonView& id) { return id.integer(); }

// {"token": id, ...}
Vocabulary load_vocabulary(const JsonView& section) {
    if (!section.json().is_object()) section.fail("should be an object of tokens and ids");
    Vocabulary vocabulary;
    int64_t largest = -1;
    for (const auto& [token, id] : section.json().items()) {
        const JsonView value(id, section.path());
        largest = std::max(largest, value.integer());
        // The table grows by the largest id: gaps are judged against the size of the whole list.
        if (largest > static_cast<int64_t>(section.json().size()) * 4 + (1 << 20)) {
            section.fail("token \"" + token.substr(0, 80) + "\" has the impossible id " +
                         std::to_string(largest));
        }
        try {
            vocabulary.add(token, token_id(value));
        } catch (const Error& error) {
            section.fail(error.what());
        }
    }
    return vocabulary;
}

std::pair<std::string, std::string> load_merge(const JsonView& merge) {
    if (merge.json().is_array()) {
        const auto sides = merge.elements();
        if (sides.size() != 2) merge.fail("should have two sides");
        return {sides[0].string(), sides[1].string()};
    }
    const std::string line = merge.string();
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
        merge.fail("should be two tokens with a space between");
    }
    return {line.substr(0, space), line.substr(space + 1)};
}

std::unique_ptr<TokenModel> load_bpe(const JsonView& section, std::vector<std::string>& notes) {
    BpeOptions options;
    if (const auto unknown = section.find("unk_token")) options.unknown_token = unknown->string();
    options.continuing_prefix = section.string_or("continuing_subword_prefix", "");
    options.end_of_word_suffix = section.string_or("end_of_word_suffix", "");
    options.fuse_unknown = section.boolean_or("fuse_unk", false);
    options.byte_fallback = section.boolean_or("byte_fallback", false);
    options.ignore_merges = section.boolean_or("ignore_merges", false);
    if (section.find("dropout")) notes.push_back("dropout of merges is not applied");
    const JsonView list = section.at("merges");
    if (!list.json().is_array()) list.fail("should be a list");
    std::vector<std::pair<std::string, std::string>> merges;
    merges.reserve(list.json().size());
    for (const auto& merge : list.json())
        merges.push_back(load_merge(JsonView(merge, list.path())));
    try {
        return std::make_unique<BpeModel>(load_vocabulary(section.at("vocab")), merges,
                                          std::move(options));
    } catch (const Error& error) {
        section.fail(error.what());
    }
}

std::unique_ptr<TokenModel> load_word_piece(const JsonView& section, std::vector<std::string>&) {
    WordPieceModel::Options options;
    options.unknown_token = section.string_or("unk_token", options.unknown_token);
    options.continuing_prefix =
        section.string_or("continuing_subword_prefix", options.continuing_prefix);
    const int64_t longest = section.integer_or("max_input_chars_per_word", 100);
    if (longest < 0) section.fail("\"max_input_chars_per_word\" is negative");
    options.longest_word = static_cast<size_t>(longest);
    return std::make_unique<WordPieceModel>(load_vocabulary(section.at("vocab")), options);
}

std::unique_ptr<TokenModel> load_word_level(const JsonView& section, std::vector<std::string>&) {
    return std::make_unique<WordLevelModel>(load_vocabulary(section.at("vocab")),
                                            section.string_or("unk_token", "<unk>"));
}

// The score as the format's own library reads it: its digits as a whole number, divided by a power
// of ten. That may miss the nearest double by a hair, which decides between segmentations of equal
// score.
double score_as_read(double score) {
    char text[64];
    const auto end =
        std::to_chars(text, text + sizeof(text), std::abs(score), std::chars_format::scientific)
            .ptr;
    uint64_t digits = 0;
    int exponent = 0;
    const char* at = text;
    for (bool fraction = false; at != end && *at != 'e'; ++at) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        digits = digits * 10 + static_cast<uint64_t>(*at - '0');
        exponent -= fraction;
    }
    if (at == end) return score;
    exponent += std::atoi(at + 1);
    if (exponent > 0 || exponent < -22) return score;
    // Powers of ten up to 10^22 are exact.
    const double magnitude = static_cast<double>(digits) / std::pow(10.0, -exponent);
    return score < 0 ? -magnitude : magnitude;
}

// [["token", score], ...] in the order of ids
std::unique_ptr<TokenModel> load_unigram(const JsonView& section, std::vector<std::string>&) {
    Vocabulary vocabulary;
    std::vector<double> scores;
    const JsonView list = section.at("vocab");
    if (!list.json().is_array()) list.fail("should be a list");
    for (const auto& entry : list.json()) {
        const auto sides = JsonView(entry, list.path()).elements();
        if (sides.size() != 2) list.fail("an entry should be a token and its score");
        vocabulary.push_back(sides[0].string());
        scores.push_back(score_as_read(sides[1].number()));
    }
    std::optional<int32_t> unknown;
    if (const auto id = section.find("unk_id")) {
        const int64_t value = id->integer();
        if (value < 0 || value >= static_cast<int64_t>(scores.size())) {
            id->fail("is not in the vocabulary");
        }
        unknown = static_cast<int32_t>(value);
    }
    if (scores.empty()) list.fail("is empty");
    return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), unknown,
                                          section.boolean_or("byte_fallback", false));
}

struct ModelRow {
    std::string_view type;
    std::unique_ptr<TokenModel> (*load)(const JsonView&, std::vector<std::string>&);
};

constexpr std::array<ModelRow, 4> kModels = {{
    {"BPE", load_bpe},
    {"WordPiece", load_word_piece},
    {"Unigram", load_unigram},
    {"WordLevel", load_word_level},
}};

// Files of old do not name the type: it is told by the fields, as the format's own library does.
std::string model_type(const JsonView& section) {
    if (const auto type = section.find("type")) return type->string();
    if (section.find("merges")) return "BPE";
    if (section.find("continuing_subword_prefix")) return "WordPiece";
    if (section.at("vocab").json().is_array()) return "Unigram";
    return "WordLevel";
}

std::unique_ptr<TokenModel> load_model(const JsonView& section, std::vector<std::string>& notes) {
    const std::string type = model_type(section);
    for (const ModelRow& row : kModels) {
        if (row.type == type) return row.load(section, notes);
    }
    section.fail("model \"" + type + "\" is not supported");
}

void load_added_tokens(const JsonView& list, TokenizerParts& parts) {
    for (const JsonView& entry : list.elements()) {
        const int64_t wanted = entry.at("id").integer();
        const auto given = parts.added.add(read_added_token(entry), parts.model->vocabulary());
        if (given && *given != wanted) {
            parts.notes.push_back(entry.path() + ": has id " + std::to_string(*given) + ", not " +
                                  std::to_string(wanted) + " as the file says");
        }
    }
}

// Which way of spelling token_bytes() has to undo: by the decoder, which may be a sequence.
void find_spelling(const JsonView& decoder, TokenizerParts& parts) {
    const std::string type = decoder.at("type").string();
    if (type == "Sequence") {
        for (const JsonView& part : decoder.at("decoders").elements()) find_spelling(part, parts);
    } else if (type == "ByteLevel") {
        parts.spelling = TokenSpelling::byte_level;
    } else if (type == "WordPiece") {
        parts.spelling = TokenSpelling::word_piece;
        parts.continuing_prefix = decoder.string_or("prefix", "##");
    } else if (type == "Metaspace" || type == "ByteFallback" || type == "Replace") {
        parts.spelling = TokenSpelling::metaspace;
    }
}

}  // namespace

TokenizerParts load_tokenizer_json(std::string_view text, const std::string& name,
                                   const TokenizerConfig& config) {
    const nlohmann::json document = parse_json_file_text(text, name);
    const JsonView root(document, name);
    TokenizerParts parts;
    parts.config = config;
    parts.notes = config.notes;
    for (const char* ignored : {"truncation", "padding"}) {
        if (root.find(ignored)) {
            parts.notes.push_back(std::string("the section \"") + ignored + "\" is not applied");
        }
    }
    parts.algorithm = model_type(root.at("model"));
    parts.model = load_model(root.at("model"), parts.notes);
    if (const auto section = root.find("normalizer")) parts.normalizer = load_normalizer(*section);
    if (const auto section = root.find("pre_tokenizer")) {
        parts.pre_tokenizer = load_pre_tokenizer(*section);
    }
    if (const auto section = root.find("post_processor")) {
        parts.post_processor = load_post_processor(*section);
    }
    if (const auto section = root.find("decoder")) {
        parts.decoder = load_decoder(*section);
        find_spelling(*section, parts);
    } else {
        parts.decoder = space_decoder();
    }
    if (const auto list = root.find("added_tokens")) load_added_tokens(*list, parts);
    parts.added.prepare(parts.normalizer.get());
    return parts;
}

}  // namespace nvllm
