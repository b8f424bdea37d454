// Names, files and numbers.
#include "lib/engine/adapters/adapter_registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/unused_keys.h"
#include "lib/checkpoint/adapter/adapter_file.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/engine/adapters/adapter_folder.h"
#include "lib/engine/adapters/lora_settings.h"
#include "lib/model/lora/adapter.h"
#include "lib/model/lora/lora_targets.h"

namespace nvllm {
namespace {

constexpr size_t kMaxNameLength = 128;
constexpr int64_t kUsualRank = 16;   // vLLM's --max-lora-rank
constexpr int32_t kHostPerSlot = 4;  // adapters in host memory, where no option says how many

int64_t largest_rank(const AdapterFile& file) {
    int64_t rank = 0;
    for (const AdapterModule& module : file.modules) rank = std::max(rank, module.b.dim(1));
    return rank;
}

AdapterInfo read_info(const std::string& name, const std::string& folder,
                      const LoraTargets& targets, const AdapterLimits& limits) {
    const AdapterFile file = read_adapter(folder);
    check_adapter(file, targets);
    AdapterInfo info;
    info.ref.name = name;
    info.ref.folder = folder;
    info.ref.key = fmt::format("{}@{:016x}", name, file.digest);
    info.ref.digest = file.digest;
    info.base_model = file.config.base_model;
    info.rank = largest_rank(file);
    info.num_modules = std::ssize(file.modules);
    info.bytes = file.bytes();
    info.note = unused_keys_note(adapter_config_path(folder).string(), file.config.unknown_keys);
    if (info.rank > limits.max_rank) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: adapter {} has rank {}, more than the {} of --max-lora-rank",
                                folder, name, info.rank, limits.max_rank));
    }
    return info;
}

// 0 where there are none, of which loading tells.
uint64_t weights_bytes(const std::string& folder) {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(adapter_weights_path(folder), missing);
    return missing ? 0 : bytes;
}

// Those that cannot be read say so when they are loaded.
int64_t largest_rank_in(const std::string& folder) {
    if (!std::filesystem::is_directory(folder)) {
        throw Error(ErrorKind::not_found, fmt::format("--lora-dir {}: there is no folder", folder));
    }
    int64_t rank = 0;
    for (const NamedAdapter& adapter : adapters_in(folder)) {
        try {
            rank = std::max(rank, read_adapter_config(adapter.folder).max_rank());
        } catch (const Error&) {
            continue;
        }
    }
    return rank;
}

}  // namespace

AdapterRegistry::AdapterRegistry(std::shared_ptr<const LoraTargets> targets,
                                 const AdapterLimits& limits,
                                 std::function<void(int32_t)> on_unload)
    : targets_(std::move(targets)), limits_(limits), on_unload_(std::move(on_unload)) {}

AdapterRegistry::~AdapterRegistry() = default;

void AdapterRegistry::watch(const std::string& folder) {
    folder_ = std::make_unique<AdapterFolder>(*this, folder);
}

std::vector<std::string> AdapterRegistry::check_folder() {
    return folder_ == nullptr ? std::vector<std::string>() : folder_->check();
}

Result<AdapterInfo> AdapterRegistry::load(const std::string& name, const std::string& folder,
                                          bool replaces) {
    if (!is_enabled()) {
        return Fault{ErrorKind::unavailable,
                     "this engine computes without adapters: start it with --enable-lora"};
    }
    if (const std::string wrong = why_no_adapter_name(name); !wrong.empty()) {
        return Fault{ErrorKind::usage, wrong, "lora_name"};
    }
    const auto is_taken = [&] { return !replaces && adapters_.contains(name); };
    const Fault taken{ErrorKind::bad_config,
                      fmt::format("adapter {} is loaded already: unload it first, or replace it "
                                  "(load_inplace)",
                                  name),
                      "lora_name"};
    {
        const std::lock_guard lock(mutex_);
        if (is_taken()) return taken;
    }
    AdapterInfo info;
    try {
        info = read_info(name, resolve_adapter_directory(folder).string(), *targets_, limits_);
    } catch (const Error& error) {
        return Fault{error.kind(), error.what(), "lora_path"};
    }
    std::optional<int32_t> replaced;
    {
        const std::lock_guard lock(mutex_);
        if (is_taken()) return taken;
        if (const auto old = adapters_.find(name); old != adapters_.end()) {
            replaced = old->second.ref.id;
        }
        info.ref.id = ++last_id_;
        adapters_[name] = info;
    }
    if (replaced) on_unload_(*replaced);
    return info;
}

Result<AdapterInfo> AdapterRegistry::unload(const std::string& name) {
    AdapterInfo info;
    {
        const std::lock_guard lock(mutex_);
        const auto found = adapters_.find(name);
        if (found == adapters_.end()) {
            return Fault{ErrorKind::not_found, fmt::format("there is no adapter {}", name),
                         "lora_name"};
        }
        info = found->second;
        adapters_.erase(found);
    }
    on_unload_(info.ref.id);
    return info;
}

std::vector<AdapterInfo> AdapterRegistry::list() const {
    const std::lock_guard lock(mutex_);
    std::vector<AdapterInfo> infos;
    for (const auto& [name, info] : adapters_) infos.push_back(info);
    return infos;
}

Result<AdapterRef> AdapterRegistry::find(const std::string& name) const {
    if (!is_enabled()) {
        return Fault{ErrorKind::not_found,
                     fmt::format("adapter {}: this engine computes without adapters", name),
                     "adapter"};
    }
    const std::lock_guard lock(mutex_);
    if (const auto found = adapters_.find(name); found != adapters_.end()) return found->second.ref;
    std::vector<std::string> names;
    for (const auto& [known, info] : adapters_) names.push_back(known);
    return Fault{ErrorKind::not_found,
                 fmt::format("there is no adapter {}; {}", name,
                             names.empty() ? "none is loaded"
                                           : fmt::format("there are {}", fmt::join(names, ", "))),
                 "adapter"};
}

std::string why_no_adapter_name(const std::string& name) {
    const auto is_allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._-/:").find(c) != std::string_view::npos;
    };
    const bool has_other = !std::ranges::all_of(name, is_allowed);
    const bool is_dots = std::ranges::all_of(name, [](char c) { return c == '.'; });
    if (!name.empty() && name.size() <= kMaxNameLength && !has_other && !is_dots) return {};
    return fmt::format(
        "\"{}\" is no name of an adapter: use up to {} letters, digits and any of . _ - / :",
        name.substr(0, kMaxNameLength), kMaxNameLength);
}

NamedAdapter parse_named_adapter(const std::string& text) {
    NamedAdapter named;
    if (text.starts_with('{')) {
        const nlohmann::json object = parse_json(text, "--lora-modules");
        for (const auto& [key, value] : object.items()) {
            if (!value.is_string()) {
                throw Error(ErrorKind::usage,
                            fmt::format("--lora-modules: {} must be a text", key));
            }
            if (key == "name") {
                named.name = value;
            } else if (key == "path") {
                named.folder = value;
            } else if (key != "base_model_name") {  // there is one base model
                throw Error(ErrorKind::usage,
                            fmt::format("--lora-modules: name, path and base_model_name are "
                                        "known, not {}",
                                        key));
            }
        }
    } else if (const size_t sign = text.find('='); sign != std::string::npos) {
        named = {text.substr(0, sign), text.substr(sign + 1)};
    }
    if (named.folder.empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--lora-modules {}: NAME=FOLDER is expected", text));
    }
    if (const std::string wrong = why_no_adapter_name(named.name); !wrong.empty()) {
        throw Error(ErrorKind::usage, "--lora-modules: " + wrong);
    }
    return named;
}

LoraChoice choose_adapters(const LoraOptions& options) {
    LoraChoice choice;
    if (!options.is_asked_for()) {
        if (!options.has_limits()) return choice;
        throw Error(ErrorKind::usage,
                    "--max-loras, --max-lora-rank and --max-cpu-loras limit adapters: "
                    "--enable-lora, --lora-modules or --lora-dir is missing");
    }
    int64_t rank = kUsualRank;
    for (const std::string& text : options.modules) {
        choice.modules.push_back(parse_named_adapter(text));
        const std::filesystem::path folder =
            resolve_adapter_directory(choice.modules.back().folder);
        rank = std::max(rank, read_adapter_config(folder).max_rank());
        choice.largest_bytes = std::max(choice.largest_bytes, weights_bytes(folder.string()));
    }
    if (!options.folder.empty()) rank = std::max(rank, largest_rank_in(options.folder));
    choice.folder = options.folder;
    choice.limits.max_loras = options.slots();
    choice.limits.max_rank = options.max_rank.value_or(static_cast<int32_t>(rank));
    choice.max_cpu_loras = options.max_cpu_loras.value_or(kHostPerSlot * choice.limits.max_loras);
    if (choice.max_cpu_loras < choice.limits.max_loras) {
        throw Error(ErrorKind::usage,
                    fmt::format("--max-cpu-loras {} is less than --max-loras {}: adapters in slots "
                                "are in host memory too",
                                choice.max_cpu_loras, choice.limits.max_loras));
    }
    return choice;
}

}  // namespace nvllm
