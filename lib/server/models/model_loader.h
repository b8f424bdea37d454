// Models come, go and are replaced while the server runs; their caches share one pool of memory.
//
// Loading is done on threads of its own: one for the models that the server starts with, one for
// each that comes later.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/http/api_error.h"
#include "lib/server/models/memory_broker.h"
#include "lib/server/models/model_set.h"

namespace nvllm::server {

// Thread-safe but for what says otherwise.
class ModelLoader {
  public:
    // All of it outlives the loader.
    ModelLoader(const ModelLimits& limits, std::string backup_model, ModelSet& models,
                ServerMetrics& metrics);
    // Ends as end() does.
    ~ModelLoader();
    ModelLoader(const ModelLoader&) = delete;
    ModelLoader& operator=(const ModelLoader&) = delete;

    // One of the models that the server starts with; begin() loads it. Throws usage for a name that
    // is taken.
    void add(std::vector<std::string> names, EngineConfig config);
    // Loads what was added, one after the other; then, or when one fails, `done` is called on the
    // thread that loads. Once, by the thread that calls wait().
    void begin(std::function<void(bool is_loaded)> done);
    // Of the first models some are still to come.
    bool is_loading() const { return is_loading_; }
    // Waits until the first models are loaded. Throws what kept one from it. REQUIRES: begin().
    void wait();
    // Waits for whatever loads and ends all engines; what they call is still called. Not on the I/O
    // thread.
    void end();

    // Loads it in the background; empty when that was begun, else why not. A failure is logged and
    // is the model's state.
    std::optional<ApiError> load(const std::string& name, const std::string& path);
    // Requests no longer find it; empty when there was one, else why not.
    std::optional<ApiError> unload(const std::string& name);
    // --backup-model takes its place under its names; without one it goes on as it is. Requests
    // in flight end with the old one, new ones wait for the backup.
    void replace(const std::shared_ptr<HostedModel>& model);
    // Ends the engines of models that have gone and that are unused; not on the I/O thread.
    void end_unused();

  private:
    std::shared_ptr<HostedModel> host(std::vector<std::string> names, EngineConfig config) const;
    void load_first(const std::function<void(bool is_loaded)>& done);
    void load_now(HostedModel& model);
    bool load_later(const std::shared_ptr<HostedModel>& model);

    const ModelLimits limits_;
    const std::string backup_model_;
    ModelSet& models_;
    ServerMetrics& metrics_;
    MemoryBroker broker_;
    std::future<void> first_;
    std::atomic<bool> is_loading_ = false;
    std::mutex mutex_;
    std::vector<std::future<void>> later_;
};

}  // namespace nvllm::server
