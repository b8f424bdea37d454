// tokenizer_config.json and the small files next to it: special tokens, options and chat templates.
#include <algorithm>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/unused_keys.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/tokenizer_parts.h"

namespace nvllm {
namespace {

constexpr uint64_t kLargestConfig = uint64_t{64} << 20;

// Keys that change neither ids nor text: of padding and cutting, of where a tokenizer came from, of
// how answers are handed over, and of what tokenizer.json says itself.
constexpr HarmlessKey kHarmless[] = {
    {"added_tokens_file"},
    {"backend"},
    {"chat_control_tokens"},
    {"chat_template_file"},
    {"clean_text", "true"},
    {"cls_token_box"},
    {"cls_token_segment_id"},
    {"do_basic_tokenize"},
    {"errors"},
    {"files_loaded"},
    {"fix_mistral_regex", "false"},
    {"from_slow"},
    {"full_tokenizer_file"},
    {"init_inputs"},
    {"is_local"},
    {"legacy"},
    {"legacy_behaviour"},
    {"local_files_only"},
    {"max_len"},
    {"max_length"},
    {"merges_file"},
    {"model_input_names"},
    {"model_max_length"},
    {"name_or_path"},
    {"never_split", "[]"},
    {"pad_to_multiple_of"},
    {"pad_token_type_id"},
    {"padding"},
    {"padding_side"},
    {"processor_class"},
    {"response_schema"},
    {"response_template"},
    {"return_tensors"},
    {"return_token_type_ids"},
    {"sp_model_kwargs", "{}"},
    {"spaces_between_special_tokens"},
    {"special_tokens_map_file"},
    {"spm_file"},
    {"stride"},
    {"tokenizer_file"},
    {"transformers_version"},
    {"trim_offsets"},
    {"truncation"},
    {"truncation_side"},
    {"truncation_strategy"},
    {"trust_remote_code"},
    {"use_default_system_prompt"},
    {"use_fast"},
    {"verbose"},
    {"vocab_file"},
    {"wordpieces_prefix", "\"##\""},
};

// A small file as its text and, once asked for, as a document.
struct SmallFile {
    std::string name;
    std::string text;

    nlohmann::json json() const { return parse_json_file_text(text, name); }
    nlohmann::ordered_json ordered() const {
        return parse_ordered_json(text, name, json_file_limits());
    }
};

std::optional<SmallFile> small_file(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file)) return std::nullopt;
    return SmallFile{file.string(), read_file(file, kLargestConfig)};
}

int32_t checked_id(const JsonView& where, int64_t id) {
    if (id < 0 || id > (1 << 28)) where.fail("has the impossible token id " + std::to_string(id));
    return static_cast<int32_t>(id);
}

void sort_by_id(TokenizerConfig& config) {
    std::ranges::stable_sort(config.added_tokens, {}, &std::pair<int32_t, AddedToken>::first);
}

// {"128000": {"content": ...}, ...}
void load_added_tokens(const JsonView& section, TokenizerConfig& config) {
    if (!section.json().is_object()) section.fail("should be an object");
    for (const auto& [key, value] : section.json().items()) {
        const JsonView entry(value, section.path() + "." + key);
        const bool digits =
            !key.empty() && key.size() <= 9 &&
            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!digits) entry.fail("the name should be a token id");
        config.added_tokens.emplace_back(checked_id(entry, std::stol(key)),
                                         read_added_token(entry));
    }
    config.has_added_tokens_decoder = true;
    sort_by_id(config);
}

// added_tokens.json: {"<tool>": 128000, ...}. Those that are special by name are so here.
void load_added_token_ids(const SmallFile& file, TokenizerConfig& config) {
    const auto document = file.json();
    const JsonView root(document, file.name);
    if (!document.is_object()) root.fail("should be an object of tokens and ids");
    for (const auto& [content, id] : document.items()) {
        const JsonView entry(id, root.path() + "." + content);
        AddedToken token;
        token.content = content;
        token.special = config.special.contains(content);
        token.normalized = !token.special;
        config.added_tokens.emplace_back(checked_id(entry, entry.integer()), token);
    }
    sort_by_id(config);
}

// A text, an object of names and texts, or a list of {"name": ..., "template": ...}. What is none
// of these is noted, not refused: only conversations need a template.
void load_templates(const JsonView& value, TokenizerConfig& config) {
    const auto keep = [&](const std::string& name, const JsonView& source) {
        if (source.json().is_string()) {
            config.chat_templates[name] = source.string();
        } else {
            config.notes.push_back(source.path() + ": not used: should be a template's text");
        }
    };
    if (value.json().is_object()) {
        for (const auto& [name, source] : value.json().items()) {
            keep(name, JsonView(source, value.path() + "." + name));
        }
    } else if (value.json().is_array()) {
        for (const JsonView& entry : value.elements()) {
            const bool has_both = entry.json().is_object() && entry.find("template") &&
                                  entry.find("name") && entry.at("name").json().is_string();
            if (has_both) {
                keep(entry.at("name").string(), entry.at("template"));
            } else {
                config.notes.push_back(entry.path() + ": not used: has no name and template");
            }
        }
    } else {
        keep("default", value);
    }
}

bool flag_or(const JsonView& root, const char* key, bool otherwise, KeySet& used) {
    used.insert(key);
    return root.boolean_or(key, otherwise);
}

std::optional<bool> flag(const JsonView& root, const char* key, KeySet& used) {
    used.insert(key);
    const auto value = root.find(key);
    return value ? std::optional<bool>(value->boolean()) : std::nullopt;
}

std::string text_or_nothing(const nlohmann::json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Which class transformers would take; config.json may be missing or, for others to say, broken.
std::string find_class(const std::filesystem::path& directory, std::string named) {
    const auto file = small_file(directory / "config.json");
    nlohmann::json model;
    if (file) model = nlohmann::json::parse(file->text, nullptr, false);
    if (named.empty()) named = text_or_nothing(model, "tokenizer_class");
    return tokenizer_class_of(std::move(named), text_or_nothing(model, "model_type"));
}

// All of tokenizer_config.json but its named special tokens, which `names` has read.
void load_main(const SmallFile& file, const KeySet& names, TokenizerConfig& config) {
    const auto document = file.json();
    const JsonView root(document, file.name);
    KeySet used = names;
    used.insert({"tokenizer_class", "chat_template", "added_tokens_decoder"});
    config.add_bos = flag(root, "add_bos_token", used);
    config.add_eos = flag(root, "add_eos_token", used);
    config.splits_special_tokens = flag_or(root, "split_special_tokens", false, used);
    config.cleans_up_spaces = flag_or(root, "clean_up_tokenization_spaces", false, used);
    config.cleans_up_bpe =
        flag_or(root, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
                false, used);
    config.class_options = read_class_options(root, used);
    config.class_options.tokenizer_class = text_or_nothing(document, "tokenizer_class");
    if (const auto value = root.find("chat_template")) load_templates(*value, config);
    if (const auto value = root.find("added_tokens_decoder")) load_added_tokens(*value, config);
    const std::string note = unused_keys_note(file.name, unused_keys(document, used, kHarmless));
    if (!note.empty()) config.notes.push_back(note);
}

// chat_template.json; a broken one is noted, not refused.
void load_template_json(const SmallFile& file, TokenizerConfig& config) {
    try {
        const auto document = file.json();
        if (const auto value = JsonView(document, file.name).find("chat_template")) {
            load_templates(*value, config);
        }
    } catch (const Error& error) {
        config.notes.push_back(std::string("not used: ") + error.what());
    }
}

// Templates in files of their own replace all in tokenizer_config.json.
void load_file_templates(const std::filesystem::path& directory, TokenizerConfig& config) {
    std::map<std::string, std::string> templates;
    const auto keep = [&](const std::string& name, const std::filesystem::path& file) {
        templates[name] = utf8::with_replacement(read_file(file, kLargestConfig));
    };
    if (const auto file = small_file(directory / "chat_template.json")) {
        load_template_json(*file, config);
    }
    if (std::filesystem::exists(directory / "chat_template.jinja")) {
        keep("default", directory / "chat_template.jinja");
    }
    std::error_code error;
    const auto folder = directory / "additional_chat_templates";
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".jinja") keep(entry.path().stem().string(), entry.path());
    }
    if (!templates.empty()) config.chat_templates = std::move(templates);
}

}  // namespace

TokenizerConfig load_tokenizer_config(const std::filesystem::path& directory) {
    TokenizerConfig config;
    SpecialTokenReader names;
    if (const auto file = small_file(directory / "tokenizer_config.json")) {
        names.read_config(file->ordered(), file->name);
        load_main(*file, names.used(), config);
    }
    const auto map = small_file(directory / "special_tokens_map.json");
    if (map && !config.has_added_tokens_decoder) names.read_map(map->ordered(), map->name);
    std::string& tokenizer_class = config.class_options.tokenizer_class;
    tokenizer_class = find_class(directory, tokenizer_class);
    config.special = names.take(tokenizer_class);
    const auto added = small_file(directory / "added_tokens.json");
    if (added && !config.has_added_tokens_decoder) load_added_token_ids(*added, config);
    load_file_templates(directory, config);
    return config;
}

}  // namespace nvllm
