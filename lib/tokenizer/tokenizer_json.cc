// tokenizer.json, the format of the Hugging Face tokenizers library, into the parts of a tokenizer.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/bpe.h"
#include "lib/tokenizer/tokenizer_parts.h"
#include "lib/tokenizer/unigram.h"
#include "lib/tokenizer/word_models.h"

namespace nvllm {
namespace {

// The lists of "model" that may be long: they are read while the document is, and are empty in it.
struct LongLists {
    std::vector<std::pair<std::string, int64_t>> ids;    // "vocab" where it is {"token": id, ...}
    std::vector<std::pair<std::string, double>> scores;  // [["token", score], ...], by id
    std::vector<std::pair<std::string, std::string>> merges;
};

// Views are made only of what is wrong: each has a copy of its path.
void take_id(std::string& token, const nlohmann::json& id, const std::string& path,
             LongLists& lists) {
    const bool is_plain = id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{INT64_MAX};
    lists.ids.emplace_back(std::move(token),
                           is_plain ? id.get<int64_t>() : JsonView(id, path).integer());
}

void take_score(const nlohmann::json& entry, const std::string& path, LongLists& lists) {
    const auto sides = JsonView(entry, path).elements();
    if (sides.size() != 2) JsonView(entry, path).fail("an entry should be a token and its score");
    lists.scores.emplace_back(sides[0].string(), sides[1].number());
}

void take_merge(nlohmann::json& merge, const std::string& path, LongLists& lists) {
    if (merge.is_array()) {
        if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
            JsonView(merge, path).fail("should have two sides, both of them texts");
        }
        lists.merges.emplace_back(std::move(merge[0].get_ref<std::string&>()),
                                  std::move(merge[1].get_ref<std::string&>()));
        return;
    }
    const std::string line = JsonView(merge, path).string();
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
        JsonView(merge, path).fail("should be two tokens with a space between");
    }
    lists.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
}

nlohmann::json parse_document(std::string_view text, const std::string& name, LongLists& lists) {
    const std::string vocabulary = name + ".model.vocab", merges = name + ".model.merges";
    const std::vector<JsonStream> streams = {
        {{"model", "vocab"},
         [&](std::string* token, nlohmann::json& element) {
             if (token != nullptr) {
                 take_id(*token, element, vocabulary, lists);
             } else {
                 take_score(element, vocabulary, lists);
             }
         }},
        {{"model", "merges"},
         [&](std::string*, nlohmann::json& merge) { take_merge(merge, merges, lists); }}};
    return parse_json_file_text(text, name, streams);
}

// Of tokens that come twice the last one counts, as in the format's own library.
void keep_last_of_each(std::vector<std::pair<std::string, int64_t>>& tokens) {
    std::map<std::string, int64_t> last;
    for (const auto& [token, id] : tokens) last[token] = id;
    tokens.assign(last.begin(), last.end());
}

Vocabulary make_vocabulary(const std::vector<std::pair<std::string, int64_t>>& tokens,
                           const JsonView& section) {
    // The table grows by the largest id: gaps are judged against the size of the whole list.
    const int64_t limit = static_cast<int64_t>(tokens.size()) * 4 + (1 << 20);
    Vocabulary vocabulary;
    vocabulary.reserve(tokens.size());
    for (const auto& [token, id] : tokens) {
        if (id > limit) {
            section.fail("token \"" + token.substr(0, 80) + "\" has the impossible id " +
                         std::to_string(id));
        }
        try {
            vocabulary.add(token, id);
        } catch (const Error& error) {
            section.fail(error.what());
        }
    }
    return vocabulary;
}

Vocabulary load_vocabulary(const JsonView& section, LongLists& lists) {
    if (!section.json().is_object()) section.fail("should be an object of tokens and ids");
    Vocabulary vocabulary = make_vocabulary(lists.ids, section);
    if (vocabulary.num_tokens() == lists.ids.size()) return vocabulary;
    keep_last_of_each(lists.ids);
    return make_vocabulary(lists.ids, section);
}

std::unique_ptr<TokenModel> load_bpe(const JsonView& section, LongLists& lists,
                                     std::vector<std::string>& notes) {
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
    try {
        return std::make_unique<BpeModel>(load_vocabulary(section.at("vocab"), lists), lists.merges,
                                          std::move(options));
    } catch (const Error& error) {
        section.fail(error.what());
    }
}

std::unique_ptr<TokenModel> load_word_piece(const JsonView& section, LongLists& lists,
                                            std::vector<std::string>&) {
    WordPieceModel::Options options;
    options.unknown_token = section.string_or("unk_token", options.unknown_token);
    options.continuing_prefix =
        section.string_or("continuing_subword_prefix", options.continuing_prefix);
    const int64_t longest = section.integer_or("max_input_chars_per_word", 100);
    if (longest < 0) section.fail("\"max_input_chars_per_word\" is negative");
    options.longest_word = static_cast<size_t>(longest);
    return std::make_unique<WordPieceModel>(load_vocabulary(section.at("vocab"), lists), options);
}

std::unique_ptr<TokenModel> load_word_level(const JsonView& section, LongLists& lists,
                                            std::vector<std::string>&) {
    return std::make_unique<WordLevelModel>(load_vocabulary(section.at("vocab"), lists),
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

std::unique_ptr<TokenModel> load_unigram(const JsonView& section, LongLists& lists,
                                         std::vector<std::string>&) {
    Vocabulary vocabulary;
    std::vector<double> scores;
    const JsonView list = section.at("vocab");
    if (!list.json().is_array()) list.fail("should be a list");
    vocabulary.reserve(lists.scores.size());
    for (auto& [token, score] : lists.scores) {
        vocabulary.push_back(std::move(token));
        scores.push_back(score_as_read(score));
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
    std::unique_ptr<TokenModel> (*load)(const JsonView&, LongLists&, std::vector<std::string>&);
};

constexpr std::array<ModelRow, 4> kModels = {{
    {"BPE", load_bpe},
    {"WordPiece", load_word_piece},
    {"Unigram", load_unigram},
    {"WordLevel", load_word_level},
}};

// Old files do not name the type: it follows from the fields, as in the format's own library.
std::string model_type(const JsonView& section) {
    if (const auto type = section.find("type")) return type->string();
    if (section.find("merges")) return "BPE";
    if (section.find("continuing_subword_prefix")) return "WordPiece";
    if (section.at("vocab").json().is_array()) return "Unigram";
    return "WordLevel";
}

std::unique_ptr<TokenModel> load_model(const JsonView& section, LongLists& lists,
                                       std::vector<std::string>& notes) {
    const std::string type = model_type(section);
    for (const ModelRow& row : kModels) {
        if (row.type == type) return row.load(section, lists, notes);
    }
    section.fail("model \"" + type + "\" is not supported");
}

void add_token(const AddedToken& token, int64_t wanted, const std::string& path,
               TokenizerParts& parts) {
    const auto given = parts.added.add(token, parts.model->vocabulary());
    if (given && *given != wanted) {
        parts.notes.push_back(path + ": has id " + std::to_string(*given) + ", not " +
                              std::to_string(wanted) + " as the file says");
    }
}

// Of the special tokens that the files name those that are no added tokens; one that is named with
// several flags comes with each.
std::vector<AddedToken> missing_special_tokens(const TokenizerParts& parts) {
    std::vector<AddedToken> missing;
    const auto add = [&](const AddedToken& token) {
        const bool is_there = parts.added.id(token.content).has_value();
        if (!is_there && std::ranges::find(missing, token) == missing.end()) {
            missing.push_back(token);
        }
    };
    for (const NamedToken& row : parts.config.special.named) {
        // The model has no use for a class's default token that its vocabulary does not have.
        if (!row.is_default || parts.model->vocabulary().id(row.token.content)) add(row.token);
    }
    for (const AddedToken& token : parts.config.special.extra) add(token);
    return missing;
}

// Adds the added tokens of the files next to tokenizer.json, as transformers 5 does: by id, the
// special ones that a file names behind them. Flags replace those of tokenizer.json; of
// added_tokens.json counts only what tokenizer.json has no token for.
void add_tokens_of_config(std::map<int64_t, AddedToken> own, TokenizerParts& parts) {
    const TokenizerConfig& config = parts.config;
    std::map<int64_t, AddedToken> tokens(config.added_tokens.begin(), config.added_tokens.end());
    if (!config.has_added_tokens_decoder) {
        own.merge(tokens);
        tokens = std::move(own);
    }
    for (auto& [id, token] : tokens) {
        token.special |= config.special.is_named(token.content);
        add_token(token, id, "added token \"" + token.content + "\"", parts);
    }
    for (const AddedToken& token : missing_special_tokens(parts)) {
        parts.added.add(token, parts.model->vocabulary());
    }
}

// The list of tokenizer.json itself (may be missing), then those of the files next to it.
void load_added_tokens(const std::optional<JsonView>& list, TokenizerParts& parts) {
    std::map<int64_t, AddedToken> own;
    for (const JsonView& entry : list ? list->elements() : std::vector<JsonView>()) {
        const int64_t id = entry.at("id").integer();
        const AddedToken token = read_added_token(entry);
        add_token(token, id, entry.path(), parts);
        own.insert_or_assign(id, token);
    }
    add_tokens_of_config(std::move(own), parts);
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

// transformers takes spaces before punctuation away from the text of all models but BPE's;
// WordPiece's decoder does it itself.
void note_clean_up(TokenizerParts& parts) {
    if (!parts.config.cleans_up_spaces || parts.spelling == TokenSpelling::word_piece) return;
    if (parts.algorithm == "BPE" && !parts.config.cleans_up_bpe) return;
    parts.notes.push_back("clean_up_tokenization_spaces is not applied");
}

}  // namespace

TokenizerParts load_tokenizer_json(std::string_view text, const std::string& name,
                                   const TokenizerConfig& config) {
    LongLists lists;
    nlohmann::json document = parse_document(text, name, lists);
    TokenizerParts parts;
    parts.config = config;
    parts.notes = config.notes;
    apply_class_options(document, config.class_options, parts.notes);
    const JsonView root(document, name);
    for (const char* ignored : {"truncation", "padding"}) {
        if (root.find(ignored)) {
            parts.notes.push_back(std::string("the section \"") + ignored + "\" is not applied");
        }
    }
    parts.algorithm = model_type(root.at("model"));
    parts.model = load_model(root.at("model"), lists, parts.notes);
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
    load_added_tokens(root.find("added_tokens"), parts);
    note_clean_up(parts);
    parts.added.prepare(parts.normalizer.get());
    return parts;
}

}  // namespace nvllm
