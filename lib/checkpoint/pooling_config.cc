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

// What modules.json says; the folder of the pooling module is left in `folder`.
void read_modules(const fs::path& file, std::string& folder, PoolingConfig& config) {
    const nlohmann::json modules = parse_json(read_file(file, kMaxFileBytes), file.string());
    if (!modules.is_array()) {
        throw Error(ErrorKind::bad_data, file.string() + ": is not a list of modules");
    }
    config.normalize = false;
    for (const nlohmann::json& module : modules) {
        const ConfigFields fields(module, file.string());
        const std::string type = fields.text("type").value_or("");
        const std::string_view kind = kind_of(type);
        if (kind == "Normalize") {
            config.normalize = true;
        } else if (kind == "Pooling") {
            folder = fields.text("path").value_or(kUsualFolder);
            if (!is_plain_name(folder)) fields.refuse("path", "the name of a folder is expected");
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

}  // namespace

PoolingConfig read_pooling_config(const fs::path& directory) {
    PoolingConfig config;
    std::string folder = kUsualFolder;
    if (is_there(directory / "modules.json")) {
        read_modules(directory / "modules.json", folder, config);
    }
    const fs::path pooling = directory / folder / "config.json";
    if (is_there(pooling)) read_pooling(pooling, config);
    return config;
}

}  // namespace nvllm
