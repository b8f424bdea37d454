// Options of transformers' tokenizer classes, as changes to sections of tokenizer.json.
#include "lib/tokenizer/class_options.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/tokenizer/json_view.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;

// Classes that take a tokenizer.json as it is: no option changes it.
constexpr std::array<std::string_view, 4> kPlainClasses = {
    "TokenizersBackend", "PreTrainedTokenizer", "PythonBackend", "MistralCommonBackend"};

bool is_plain(std::string_view name) {
    return name.empty() || std::ranges::find(kPlainClasses, name) != kPlainClasses.end();
}

struct ModelClass {
    std::string_view model_type;
    std::string_view tokenizer_class;
    bool replaces_named = false;  // files of such models are known to name a wrong one
};

// Of the supported families; others have the class that their files name.
constexpr ModelClass kModelClasses[] = {
    {"bert", "BertTokenizer"},
    {"distilbert", "BertTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"mistral", "TokenizersBackend"},
    {"mixtral", "TokenizersBackend"},
    {"phi3", "TokenizersBackend"},
    {"qwen2", "Qwen2Tokenizer", true},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
};

// Names of other models for the same class.
constexpr std::pair<std::string_view, std::string_view> kSameClasses[] = {
    {"BartTokenizer", "RobertaTokenizer"},
    {"DistilBertTokenizer", "BertTokenizer"},
    {"ElectraTokenizer", "BertTokenizer"},
    {"MobileBertTokenizer", "BertTokenizer"},
};

std::string_view class_named(std::string_view name) {
    if (name == "PreTrainedTokenizerFast") return "TokenizersBackend";
    if (name.ends_with("Fast")) name.remove_suffix(4);
    for (const auto& [other, same] : kSameClasses) {
        if (name == other) return same;
    }
    return name;
}

// Empty where it is no text.
std::string text_of(const Json& part, const char* key) {
    const auto found = part.find(key);
    return found != part.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Calls change(part) for each part of this type, in sequences too, and says how many there are.
template <typename Change>
int change_parts(Json& section, std::string_view type, const char* list, Change&& change) {
    if (!section.is_object()) return 0;
    if (text_of(section, "type") == type) {
        change(section);
        return 1;
    }
    int count = 0;
    const auto parts = section.find(list);
    if (parts == section.end() || !parts->is_array()) return 0;
    for (Json& part : *parts) count += change_parts(part, type, list, change);
    return count;
}

// Takes parts of this type out of a section; one that is nothing else becomes null.
void remove_parts(Json& section, std::string_view type, const char* list) {
    if (!section.is_object()) return;
    if (text_of(section, "type") == type) {
        section = nullptr;
        return;
    }
    const auto parts = section.find(list);
    if (parts == section.end() || !parts->is_array()) return;
    for (Json& part : *parts) remove_parts(part, type, list);
    std::erase_if(parts->get_ref<Json::array_t&>(),
                  [](const Json& part) { return part.is_null(); });
}

bool is_false(const Json& part, const char* key) {
    const auto found = part.find(key);
    return found != part.end() && found->is_boolean() && !found->get<bool>();
}

// Llama's, XLM-RoBERTa's: the mark of a word at the start of a text, `scheme` where the file has
// none.
int set_metaspace_prefix(Json& document, bool wanted, const char* scheme) {
    const auto change = [&](Json& part) {
        const bool has_none = text_of(part, "prepend_scheme") == "never" ||
                              is_false(part, "add_prefix_space");  // its older form
        if (!wanted) part["prepend_scheme"] = "never";
        if (wanted && has_none) part["prepend_scheme"] = scheme;
    };
    const int count = change_parts(document["pre_tokenizer"], "Metaspace", "pretokenizers", change);
    change_parts(document["decoder"], "Metaspace", "decoders", change);
    const int prepends =
        change_parts(document["normalizer"], "Prepend", "normalizers", [](const Json&) {});
    if (wanted || prepends == 0) return count + prepends;
    remove_parts(document["normalizer"], "Prepend", "normalizers");
    remove_parts(document["decoder"], "Strip", "decoders");
    return count + prepends;
}

// GPT-2's and others that work on bytes.
int set_byte_level_prefix(Json& document, bool wanted) {
    return change_parts(document["pre_tokenizer"], "ByteLevel", "pretokenizers",
                        [&](Json& part) { part["add_prefix_space"] = wanted; });
}

void apply_prefix(Json& document, const ClassOptions& options, std::vector<std::string>& notes) {
    const bool wanted = *options.add_prefix_space;
    if (options.tokenizer_class == "GemmaTokenizer") return;  // has no such option
    const bool is_llama = options.tokenizer_class == "LlamaTokenizer";
    int count = set_metaspace_prefix(document, wanted, is_llama ? "first" : "always");
    // A file of bytes under Llama's class is taken as it is.
    if (!is_llama) count += set_byte_level_prefix(document, wanted);
    if (count == 0 && wanted && !is_llama) notes.push_back("add_prefix_space is not applied");
}

void apply_bert(Json& document, const ClassOptions& options, std::vector<std::string>& notes) {
    const int count =
        change_parts(document["normalizer"], "BertNormalizer", "normalizers", [&](Json& part) {
            if (options.do_lower_case) part["lowercase"] = *options.do_lower_case;
            if (options.tokenize_chinese_chars) {
                part["handle_chinese_chars"] = *options.tokenize_chinese_chars;
            }
            if (!options.strip_accents) return;
            part["strip_accents"] = nullptr;
            if (*options.strip_accents) part["strip_accents"] = **options.strip_accents;
        });
    if (count == 0 && options.do_lower_case.value_or(false)) {
        notes.push_back("do_lower_case is not applied");
    }
}

}  // namespace

ClassOptions read_class_options(const JsonView& config, KeySet& used) {
    const auto flag = [&](const char* key) -> std::optional<bool> {
        used.insert(key);
        const auto value = config.find(key);
        return value ? std::optional<bool>(value->boolean()) : std::nullopt;
    };
    ClassOptions options;
    options.add_prefix_space = flag("add_prefix_space");
    options.do_lower_case = flag("do_lower_case");
    options.tokenize_chinese_chars = flag("tokenize_chinese_chars");
    const auto strip_accents = flag("strip_accents");
    if (config.json().contains("strip_accents")) options.strip_accents = strip_accents;
    return options;
}

std::string tokenizer_class_of(std::string named, std::string_view model_type) {
    named = class_named(named);
    const auto row = std::ranges::find(kModelClasses, model_type, &ModelClass::model_type);
    if (row != std::end(kModelClasses)) {
        if (named.empty() || row->replaces_named || is_plain(row->tokenizer_class)) {
            named = row->tokenizer_class;
        }
    }
    return is_plain(named) ? std::string() : named;
}

void apply_class_options(Json& document, const ClassOptions& options,
                         std::vector<std::string>& notes) {
    if (is_plain(options.tokenizer_class) || !document.is_object()) return;
    if (options.add_prefix_space) apply_prefix(document, options, notes);
    apply_bert(document, options, notes);
}

}  // namespace nvllm
