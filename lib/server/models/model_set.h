// The models of one server, by name; they come and go while requests run.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "lib/server/models/hosted_model.h"

namespace nvllm::server {

// Thread-safe.
class ModelSet {
  public:
    // False when a model of one of its names is there already.
    bool add(std::shared_ptr<HostedModel> model);
    // By any of its names, or that of an adapter of it; the first model for an empty one. Null when
    // there is none.
    std::shared_ptr<HostedModel> find(std::string_view name) const;
    std::vector<std::shared_ptr<HostedModel>> all() const;
    // Those that were removed and have not ended yet as well.
    std::vector<std::shared_ptr<HostedModel>> all_active() const;
    // Requests no longer find it; those in flight keep it until they have ended.
    bool remove(std::string_view name);
    // Ends the engines of removed models that are no longer used. Blocks for as long as that
    // takes, so not on the I/O thread.
    void end_unused();
    bool has_unused() const;
    // Ends the engines of all models, whatever they are at; blocks.
    void stop_all();

  private:
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<HostedModel>> models_;
    std::vector<std::shared_ptr<HostedModel>> removed_;
};

}  // namespace nvllm::server
