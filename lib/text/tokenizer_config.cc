// tokenizer_config.json and the small files beside it: special tokens and chat templates.
#include <algorithm>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/utf8.h"
#include "lib/text/tokenizer_parts.h"

namespace nvllm {
namespace {

constexpr uint64_t kLargestConfig = uint64_t{64} << 20;

// "<s>" or {"content": "<s>", ...}; empty when it is neither.
std::string token_text(const JsonView& value) {
    if (value.json().is_object()) return value.string_or("content", "");
    return value.json().is_string() ? value.string() : std::string();
}

int32_t checked_id(const JsonView& where, int64_t id) {
    if (id < 0 || id > (1 << 28)) where.fail("has the impossible token id " + std::to_string(id));
    return static_cast<int32_t>(id);
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
    std::sort(config.added_tokens.begin(), config.added_tokens.end(),
              [](const auto& left, const auto& right) { return left.first < right.first; });
}

// A string, or a list of {"name": ..., "template": ...}.
void load_templates(const JsonView& value, TokenizerConfig& config) {
    if (value.json().is_string()) {
        config.chat_templates["default"] = value.string();
        return;
    }
    for (const JsonView& entry : value.elements()) {
        config.chat_templates[entry.at("name").string()] = entry.at("template").string();
    }
}

void load_special_tokens(const JsonView& root, TokenizerConfig& config) {
    struct Row {
        const char* key;
        std::string TokenizerConfig::*text;
    };
    constexpr std::array<Row, 3> kRows = {{{"bos_token", &TokenizerConfig::bos_text},
                                           {"eos_token", &TokenizerConfig::eos_text},
                                           {"unk_token", &TokenizerConfig::unk_text}}};
    for (const Row& row : kRows) {
        const auto value = root.find(row.key);
        if (value && (config.*row.text).empty()) config.*row.text = token_text(*value);
    }
}

void load_main(const std::filesystem::path& file, TokenizerConfig& config) {
    const auto document = parse_json_file_text(read_file(file, kLargestConfig), file.string());
    const JsonView root(document, file.string());
    load_special_tokens(root, config);
    if (const auto value = root.find("add_bos_token")) config.add_bos = value->boolean();
    if (const auto value = root.find("add_eos_token")) config.add_eos = value->boolean();
    if (const auto value = root.find("legacy")) config.legacy = value->boolean();
    if (const auto value = root.find("chat_template")) load_templates(*value, config);
    if (const auto value = root.find("added_tokens_decoder")) load_added_tokens(*value, config);
}

void load_file_templates(const std::filesystem::path& directory, TokenizerConfig& config) {
    const auto keep = [&](const std::string& name, const std::filesystem::path& file) {
        config.chat_templates[name] = utf8::with_replacement(read_file(file, kLargestConfig));
    };
    if (std::filesystem::exists(directory / "chat_template.json")) {
        const auto file = directory / "chat_template.json";
        const auto document = parse_json_file_text(read_file(file, kLargestConfig), file.string());
        if (const auto value = JsonView(document, file.string()).find("chat_template")) {
            load_templates(*value, config);
        }
    }
    if (std::filesystem::exists(directory / "chat_template.jinja")) {
        keep("default", directory / "chat_template.jinja");
    }
    std::error_code error;
    const auto folder = directory / "additional_chat_templates";
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".jinja") keep(entry.path().stem().string(), entry.path());
    }
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

TokenizerConfig load_tokenizer_config(const std::filesystem::path& directory) {
    TokenizerConfig config;
    if (std::filesystem::exists(directory / "tokenizer_config.json")) {
        load_main(directory / "tokenizer_config.json", config);
    }
    const auto map = directory / "special_tokens_map.json";
    if (std::filesystem::exists(map)) {
        const auto document = parse_json_file_text(read_file(map, kLargestConfig), map.string());
        load_special_tokens(JsonView(document, map.string()), config);
    }
    const auto added = directory / "added_tokens.json";
    if (config.added_tokens.empty() && std::filesystem::exists(added)) {
        const auto document =
            parse_json_file_text(read_file(added, kLargestConfig), added.string());
        const JsonView root(document, added.string());
        if (!document.is_object()) root.fail("should be an object of tokens and ids");
        for (const auto& [content, id] : document.items()) {
            const JsonView entry(id, root.path() + "." + content);
            AddedToken token;
            token.content = content;
            token.special = content.starts_with("<") && content.ends_with(">");
            config.added_tokens.emplace_back(checked_id(entry, entry.integer()), token);
        }
    }
    load_file_templates(directory, config);
    return config;
}

}  // namespace nvllm
