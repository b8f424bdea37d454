// Two looks: what is being written is left alone until it stays as it is.
#include "lib/engine/adapters/adapter_folder.h"

#include <algorithm>
#include <system_error>

#include "lib/checkpoint/adapter/adapter_config.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<NamedAdapter> adapters_in(const fs::path& folder) {
    std::vector<NamedAdapter> found;
    std::error_code ignored;
    for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
         at.increment(ignored)) {
        const std::string name = at->path().filename().string();
        const bool is_adapter = fs::exists(adapter_config_path(at->path()), ignored);
        if (is_adapter && why_no_adapter_name(name).empty()) {
            found.push_back({name, at->path().string()});
        }
    }
    std::ranges::sort(found, {}, &NamedAdapter::name);
    return found;
}

AdapterFolder::Stamp AdapterFolder::stamp_of(const std::string& folder) {
    std::error_code ignored;
    const fs::path config = adapter_config_path(folder);
    const fs::path weights = adapter_weights_path(folder);
    return {fs::last_write_time(config, ignored), fs::last_write_time(weights, ignored),
            fs::file_size(config, ignored), fs::file_size(weights, ignored)};
}

std::vector<std::string> AdapterFolder::check() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> faults;
    const std::vector<NamedAdapter> present = adapters_in(folder_);
    unload_gone(present);
    for (const NamedAdapter& adapter : present) {
        const Stamp stamp = stamp_of(adapter.folder);
        Seen& seen = seen_[adapter.name];
        const bool is_settled = is_first_ || seen.stamp == stamp;
        if (seen.stamp != stamp) seen = {stamp, false, seen.is_loaded};
        if (seen.is_tried || !is_settled) continue;
        seen.is_tried = true;
        const auto loaded = registry_.load(adapter.name, adapter.folder, seen.is_loaded);
        if (loaded) {
            seen.is_loaded = true;
        } else {
            faults.push_back(loaded.fault().message);
        }
    }
    is_first_ = false;
    return faults;
}

void AdapterFolder::unload_gone(const std::vector<NamedAdapter>& present) {
    for (auto at = seen_.begin(); at != seen_.end();) {
        const bool is_there = std::ranges::any_of(
            present, [&](const NamedAdapter& adapter) { return adapter.name == at->first; });
        if (is_there) {
            ++at;
            continue;
        }
        // Someone else may have unloaded it.
        if (at->second.is_loaded) static_cast<void>(registry_.unload(at->first));
        at = seen_.erase(at);
    }
}

}  // namespace nvllm
