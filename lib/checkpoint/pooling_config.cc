// Reading modules.json and the pooling module's config.json.
#include "lib/checkpoint/pooling_config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr const char* kUsualFolder = "1_Pooling";

struct Mode {
    const char* name;              // as the value of "pooling_mode"
    const char* key;               // of a switch of its own
    std::optional<PooledRow> row;  // empty: not supported
};

constexpr std::array<Mode, 6> kModes = {{
    {"cls", "pooling_mode_cls_token", PooledRow::first},
    {"mean", "pooling_mode_mean_tokens", PooledRow::mean},
    {"lasttoken", "pooling_mode_lasttoken", PooledRow::last},
    {"max", "pooling_mode_max_tokens", std::nullopt},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", std::nullopt},
    {"weightedmean", "pooling_mode_weightedmean_tokens", std::nullopt},
}};

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

Fault unsupported(const fs::path& file, const std::string& what) {
    return {ErrorKind::bad_data, fmt::format("{}: {} is not supported", file.string(), what)};
}

// "sentence_transformers.models.Pooling" and its like: the last name.
std::string_view kind_of(std::string_view type) { return type.substr(type.rfind('.') + 1); }

// A folder in the model's own, and nothing else: the file is not to lead elsewhere.
bool is_plain_name(const std::string& path) {
    return !path.empty() && path.find_first_of("/\\") == std::string::npos && path != "." &&
           path != "..";
}

// The folder of a module that has one.
std::string folder_of(const ConfigFields& module, const char* usual) {
    std::string folder = module.text("path").value_or(usual);
    if (!is_plain_name(folder)) module.refuse("path", "the name of a folder is expected");
    return folder;
}

DenseModule::Function function_named(const ConfigFields& fields) {
    const std::string path =
        fields.text("activation_function").value_or("torch.nn.modules.activation.Tanh");
    const std::string_view name = kind_of(path);
    const bool is_torch = path.starts_with("torch.nn.");
    if (is_torch && name == "Identity") return DenseModule::Function::identity;
    if (is_torch && name == "Tanh") return DenseModule::Function::tanh;
    fields.refuse("activation_function",
                  "of the functions of torch.nn, Identity and Tanh are supported");
}

// Of the vector, not of each token's.
void check_vector_name(const ConfigFields& fields, const char* key) {
    if (fields.text(key).value_or("sentence_embedding") == "sentence_embedding") return;
    fields.refuse(key, "only a linear of the pooled vector is supported");
}

DenseModule read_dense(const fs::path& directory, const std::string& folder) {
    const fs::path file = directory / folder / "config.json";
    const nlohmann::json document = parse_json(read_file(file, kMaxFileBytes), file.string());
    const ConfigFields fields(document, file.string());
    const auto size = [&](const char* key) {
        const auto value = fields.integer(key, 1, kMaxIntermediate);
        if (!value) fields.refuse(key, "a whole number is expected");
        return *value;
    };
    check_vector_name(fields, "module_input_name");
    check_vector_name(fields, "module_output_name");
    return {folder, size("in_features"), size("out_features"),
            fields.boolean("bias").value_or(true), function_named(fields)};
}

// A linear behind the pooling, as wide as what it reads. What it cannot be is a fault of vectors.
void add_dense(const fs::path& directory, const ConfigFields& module, PoolingConfig& config) {
    if (config.fault) return;
    try {
        DenseModule dense = read_dense(directory, folder_of(module, ""));
        if (!config.dense.empty() && config.dense.back().out != dense.in) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: {} values go into a linear of {}", module.file_name(),
                                    config.dense.back().out, dense.in));
        }
        config.dense.push_back(std::move(dense));
    } catch (const Error& error) {
        config.fault = Fault{ErrorKind::bad_data, error.what()};
    }
}

// What modules.json says; the folder of the pooling module is left in `folder`.
void read_modules(const fs::path& file, std::string& folder, PoolingConfig& config) {
    const nlohmann::json modules = parse_json(read_file(file, kMaxFileBytes), file.string());
    if (!modules.is_array()) {
        throw Error(ErrorKind::bad_data, file.string() + ": is not a list of modules");
    }
    config.normalize = false;
    bool is_pooled = false;
    for (const nlohmann::json& module : modules) {
        const ConfigFields fields(module, file.string());
        const std::string type = fields.text("type").value_or("");
        const std::string_view kind = kind_of(type);
        if (kind == "Normalize") {
            config.normalize = true;
        } else if (kind == "Pooling") {
            folder = folder_of(fields, kUsualFolder);
            is_pooled = true;
        } else if (kind == "Dense" && is_pooled && !*config.normalize &&
                   type.starts_with("sentence_transformers.")) {
            add_dense(file.parent_path(), fields, config);
        } else if (kind != "Transformer" && !config.fault) {
            config.fault =
                unsupported(file, fmt::format("a module of type {}", quoted_for_message(type)));
        }
    }
}

// Old files switch modes on, one key each; newer ones name them.
bool asks_for(const ConfigFields& fields, const Mode& mode) {
    if (fields.boolean(mode.key).value_or(false)) return true;
    const nlohmann::json* named = fields.find("pooling_mode");
    return named != nullptr && named->is_string() && named->get<std::string>() == mode.name;
}

void read_pooling(const fs::path& file, PoolingConfig& config) {
    const nlohmann::json document = parse_json(read_file(file, kMaxFileBytes), file.string());
    const ConfigFields fields(document, file.string());
    config.pools_prompts = fields.boolean("include_prompt").value_or(true);
    std::vector<const Mode*> modes;
    for (const Mode& mode : kModes) {
        if (asks_for(fields, mode)) modes.push_back(&mode);
    }
    if (modes.size() == 1) config.row = modes.front()->row;
    if (config.row || config.fault) return;
    const std::string what = modes.empty()       ? "a pooling mode of another name"
                             : modes.size() == 1 ? std::string(modes.front()->key)
                                                 : "more than one pooling mode at once";
    config.fault = unsupported(file, what);
}

void read_prompts(const fs::path& file, PoolingConfig& config) {
    const nlohmann::json document = parse_json(read_file(file, kMaxFileBytes), file.string());
    const ConfigFields fields(document, file.string());
    if (const auto prompts = fields.object("prompts")) {
        for (const auto& [name, text] : prompts->json().items()) {
            if (!text.is_string()) prompts->refuse(name.c_str(), "a text is expected");
            config.prompts.emplace(name, text.get<std::string>());
        }
    }
    config.default_prompt = fields.text("default_prompt_name").value_or("");
    if (config.default_prompt.empty() || config.prompts.contains(config.default_prompt)) return;
    fields.refuse("default_prompt_name", "there is no such prompt");
}

}  // namespace

PoolingConfig read_pooling_config(const fs::path& directory) {
    PoolingConfig config;
    std::string folder = kUsualFolder;
    if (is_there(directory / "modules.json")) {
        read_modules(directory / "modules.json", folder, config);
    }
    const fs::path pooling = directory / folder / "config.json";
    if (is_there(pooling)) read_pooling(pooling, config);
    const fs::path prompts = directory / "config_sentence_transformers.json";
    if (is_there(prompts)) read_prompts(prompts, config);
    return config;
}

}  // namespace nvllm
