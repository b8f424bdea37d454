// The order of files, names and lists in transformers 5.
#include "lib/tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/tokenizer/json_view.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kUsualNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// Its index among the usual names; behind all of them when it is none.
size_t rank_of(std::string_view name) {
    return static_cast<size_t>(std::ranges::find(kUsualNames, name) - kUsualNames.begin());
}

struct ClassToken {
    std::string_view tokenizer_class;
    std::string_view name;
    std::string_view text;
};

// What the constructors of transformers' classes have where nothing is given.
constexpr ClassToken kClassTokens[] = {
    {"LlamaTokenizer", "bos_token", "<s>"},
    {"LlamaTokenizer", "eos_token", "</s>"},
    {"LlamaTokenizer", "unk_token", "<unk>"},
    {"GPT2Tokenizer", "bos_token", "<|endoftext|>"},
    {"GPT2Tokenizer", "eos_token", "<|endoftext|>"},
    {"GPT2Tokenizer", "unk_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "eos_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "unk_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "pad_token", "<|endoftext|>"},
    {"GemmaTokenizer", "bos_token", "<bos>"},
    {"GemmaTokenizer", "eos_token", "<eos>"},
    {"GemmaTokenizer", "unk_token", "<unk>"},
    {"GemmaTokenizer", "pad_token", "<pad>"},
    {"GemmaTokenizer", "mask_token", "<mask>"},
    {"BertTokenizer", "unk_token", "[UNK]"},
    {"BertTokenizer", "sep_token", "[SEP]"},
    {"BertTokenizer", "pad_token", "[PAD]"},
    {"BertTokenizer", "cls_token", "[CLS]"},
    {"BertTokenizer", "mask_token", "[MASK]"},
    {"RobertaTokenizer", "bos_token", "<s>"},
    {"RobertaTokenizer", "eos_token", "</s>"},
    {"RobertaTokenizer", "unk_token", "<unk>"},
    {"RobertaTokenizer", "sep_token", "</s>"},
    {"RobertaTokenizer", "pad_token", "<pad>"},
    {"RobertaTokenizer", "cls_token", "<s>"},
    {"RobertaTokenizer", "mask_token", "<mask>"},
    {"XLMRobertaTokenizer", "bos_token", "<s>"},
    {"XLMRobertaTokenizer", "eos_token", "</s>"},
    {"XLMRobertaTokenizer", "unk_token", "<unk>"},
    {"XLMRobertaTokenizer", "sep_token", "</s>"},
    {"XLMRobertaTokenizer", "pad_token", "<pad>"},
    {"XLMRobertaTokenizer", "cls_token", "<s>"},
    {"XLMRobertaTokenizer", "mask_token", "<mask>"},
};

// "<s>" or {"content": "<s>", ...}; nothing when it is neither. `is_special`: as far as the object
// does not say, its token is special and therefore not looked for in normalized text.
std::optional<AddedToken> token_of(const Json& value, const std::string& path, bool is_special) {
    AddedToken token;
    token.special = true;
    if (value.is_string()) {
        token.content = value.get<std::string>();
        return token;
    }
    if (!value.is_object() || !value.contains("content")) return std::nullopt;
    nlohmann::json entry = value;
    if (is_special) entry["special"] = true;
    token = read_added_token(JsonView(entry, path));
    token.special = true;
    return token;
}

bool has_elements(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_structured() && !found->empty();
}

}  // namespace

AddedToken read_added_token(const JsonView& entry) {
    AddedToken token;
    token.content = entry.at("content").string();
    token.special = entry.boolean_or("special", false);
    token.single_word = entry.boolean_or("single_word", false);
    token.lstrip = entry.boolean_or("lstrip", false);
    token.rstrip = entry.boolean_or("rstrip", false);
    token.normalized = entry.boolean_or("normalized", !token.special);
    return token;
}

const std::string& SpecialTokens::text(std::string_view name) const {
    static const std::string kNone;
    const auto found = std::ranges::find(named, name, &NamedToken::name);
    return found == named.end() ? kNone : found->token.content;
}

bool SpecialTokens::contains(std::string_view content) const {
    const auto is_given = [&](const NamedToken& row) {
        return !row.is_default && rank_of(row.name) < kUsualNames.size() &&
               row.token.content == content;
    };
    return std::ranges::any_of(named, is_given) ||
           std::ranges::find(extra, content, &AddedToken::content) != extra.end();
}

void SpecialTokens::name_if_unnamed(const std::string& name, const std::string& content) {
    if (!text(name).empty()) return;
    AddedToken token;
    token.content = content;
    token.special = true;
    named.push_back({name, token, true});
}

bool SpecialTokens::is_named(std::string_view content) const {
    return std::ranges::any_of(named,
                               [&](const NamedToken& row) { return row.token.content == content; });
}

void SpecialTokenReader::name(const std::string& name, AddedToken token) {
    const auto found = std::ranges::find(tokens_.named, name, &NamedToken::name);
    if (found != tokens_.named.end()) {
        found->token = std::move(token);
    } else {
        tokens_.named.push_back({name, std::move(token)});
    }
}

void SpecialTokenReader::read_names(const Json& object, const std::string& file_name,
                                    bool is_special) {
    for (const auto& [key, value] : object.items()) {
        if (!key.ends_with("_token")) continue;
        if (value.is_null()) {
            decided_.insert(key);
            std::erase_if(tokens_.named,
                          [&name = key](const NamedToken& row) { return row.name == name; });
        } else if (auto token = token_of(value, file_name + "." + key, is_special)) {
            decided_.insert(key);
            used_.insert(key);
            name(key, std::move(*token));
        }
    }
}

// A list, or an object of names and tokens.
void SpecialTokenReader::read_extra(const std::string& key, const Json& value,
                                    const std::string& file_name, bool is_special) {
    const std::string path = file_name + "." + key;
    if (value.is_object()) {
        for (const auto& [name_of_it, entry] : value.items()) {
            if (auto token = token_of(entry, path, is_special)) name(name_of_it, std::move(*token));
        }
        return;
    }
    for (const Json& entry : value) {
        auto token = token_of(entry, path, is_special);
        if (!token) continue;
        const bool is_known = std::ranges::any_of(tokens_.extra, [&](const AddedToken& other) {
            return other.content == token->content;
        });
        if (!is_known) tokens_.extra.push_back(std::move(*token));
    }
}

void SpecialTokenReader::read_config(const Json& config, const std::string& file_name) {
    read_names(config, file_name, false);
    // additional_special_tokens is the older name of the list; an object of names is none.
    used_.insert(
        {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"});
    for (const char* key :
         {"extra_special_tokens", "additional_special_tokens", "model_specific_special_tokens"}) {
        const bool is_replaced =
            key == std::string_view("additional_special_tokens") && !tokens_.extra.empty();
        if (has_elements(config, key) && !is_replaced) {
            read_extra(key, config[key], file_name, false);
        }
    }
}

void SpecialTokenReader::read_map(const Json& map, const std::string& file_name) {
    // Of names beyond the usual ones those of tokenizer_config.json stand, behind the map's.
    std::vector<NamedToken> unusual;
    std::erase_if(tokens_.named, [&](const NamedToken& row) {
        const bool is_unusual = rank_of(row.name) == kUsualNames.size();
        if (is_unusual) unusual.push_back(row);
        return is_unusual;
    });
    const bool had_list = !tokens_.extra.empty();
    read_names(map, file_name, true);
    for (NamedToken& row : unusual) name(row.name, std::move(row.token));
    if (has_elements(map, "extra_special_tokens")) {
        read_extra("extra_special_tokens", map["extra_special_tokens"], file_name, true);
    }
    if (!had_list && has_elements(map, "additional_special_tokens")) {
        read_extra("additional_special_tokens", map["additional_special_tokens"], file_name, true);
    }
}

SpecialTokens SpecialTokenReader::take(std::string_view tokenizer_class) {
    for (const ClassToken& row : kClassTokens) {
        if (row.tokenizer_class != tokenizer_class || decided_.contains(row.name)) continue;
        tokens_.name_if_unnamed(std::string(row.name), std::string(row.text));
    }
    std::ranges::stable_sort(tokens_.named, {},
                             [](const NamedToken& row) { return rank_of(row.name); });
    return std::move(tokens_);
}

}  // namespace nvllm
