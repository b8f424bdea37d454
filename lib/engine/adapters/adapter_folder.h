// A folder whose subfolders are adapters, by their names: what comes, changes or goes there does so
// in the registry.
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lib/engine/adapters/adapter_registry.h"

namespace nvllm {

// Subfolders that hold an adapter_config.json and have a name that an adapter can have. Empty where
// the folder cannot be read.
std::vector<NamedAdapter> adapters_in(const std::filesystem::path& folder);

// Any thread, one at a time.
class AdapterFolder {
  public:
    // `registry` outlives it.
    AdapterFolder(AdapterRegistry& registry, std::filesystem::path folder)
        : registry_(registry), folder_(std::move(folder)) {}

    // Loads what is new or has changed, and unloads what has gone. Returns faults of adapters that
    // cannot be loaded, each once while its files stay the same.
    std::vector<std::string> check();

  private:
    // Of an adapter's two files: when they were written, and their bytes.
    struct Stamp {
        std::filesystem::file_time_type config_time{};
        std::filesystem::file_time_type weights_time{};
        uint64_t config_bytes = 0;
        uint64_t weights_bytes = 0;

        bool operator==(const Stamp&) const = default;
    };
    struct Seen {
        Stamp stamp;
        bool is_tried = false;   // to load it as it is now
        bool is_loaded = false;  // by this folder
    };

    static Stamp stamp_of(const std::string& folder);
    void unload_gone(const std::vector<NamedAdapter>& present);

    AdapterRegistry& registry_;
    const std::filesystem::path folder_;
    std::mutex mutex_;
    std::map<std::string, Seen> seen_;
    bool is_first_ = true;
};

}  // namespace nvllm
