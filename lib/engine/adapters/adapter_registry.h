// The adapters that requests may name: read and checked when they come, long before a worker loads
// them.
//
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/execute/worker_config.h"
#include "lib/request/adapter.h"

namespace nvllm {

class AdapterFolder;
class LoraTargets;

struct AdapterInfo {
    AdapterRef ref;
    std::string base_model;  // as the adapter's config names it; may be empty
    int64_t rank = 0;        // the largest of its modules
    int64_t num_modules = 0;
    uint64_t bytes = 0;  // of its file
    std::string note;    // what of its config is not used and may mean something; empty: nothing
};

class AdapterRegistry {
  public:
    // `targets`: of the whole model; null: adapters are not enabled. `on_unload` is told of
    // adapters that no request will name any more.
    AdapterRegistry(std::shared_ptr<const LoraTargets> targets, const AdapterLimits& limits,
                    std::function<void(int32_t adapter)> on_unload);

    ~AdapterRegistry();

    bool is_enabled() const { return targets_ != nullptr; }
    // The folder's subfolders become adapters of it by check_folder(), and no longer are when they
    // have gone. Before other threads call anything.
    void watch(const std::string& folder);
    // What has come, changed or gone there. Returns as AdapterFolder::check().
    std::vector<std::string> check_folder();

    // From a folder, or the name of a repository in the Hugging Face cache. A name that is taken is
    // a fault (bad_config), unless it is to be replaced: requests under way keep the adapter that
    // they began with. Other faults: bad_data and not_found for files, usage for a name or a rank,
    // unavailable where adapters are not enabled.
    Result<AdapterInfo> load(const std::string& name, const std::string& folder,
                             bool replaces = false);
    // Requests under way go on with it. A fault (not_found) where there is none of this name.
    Result<AdapterInfo> unload(const std::string& name);

    // By name, ascending.
    std::vector<AdapterInfo> list() const;
    // A fault (not_found) that names those there are.
    Result<AdapterRef> find(const std::string& name) const;

  private:
    std::shared_ptr<const LoraTargets> targets_;
    AdapterLimits limits_;
    std::function<void(int32_t)> on_unload_;
    std::unique_ptr<AdapterFolder> folder_;  // null: none is watched
    mutable std::mutex mutex_;               // of what follows
    std::map<std::string, AdapterInfo> adapters_;
    int32_t last_id_ = 0;
};

// "NAME=FOLDER", or vLLM's JSON object of "name" and "path". Throws usage.
struct NamedAdapter {
    std::string name;
    std::string folder;
};
NamedAdapter parse_named_adapter(const std::string& text);

// Letters, digits, '.', '_', '-', '/' and ':', not only dots, at most 128; empty: it is one, else
// what is wrong with it.
std::string why_no_adapter_name(const std::string& name);

// What the options of an engine come to. Reads the modules' configs for their ranks. Throws usage,
// and what read_adapter_config() throws.
struct LoraOptions;
struct LoraChoice {
    std::vector<NamedAdapter> modules;
    std::string folder;          // empty: none
    uint64_t largest_bytes = 0;  // of the files of those that are named
    AdapterLimits limits;        // of workers
    int32_t max_cpu_loras = 0;
};
LoraChoice choose_adapters(const LoraOptions& options);

}  // namespace nvllm
