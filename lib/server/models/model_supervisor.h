// Looks after the models while they serve: what memory the process has left decides whether
// anything is let in, and what their engines survived when another model has to take over.
//
// Called on the I/O thread a few times a second; nothing here waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "lib/server/http/memory_reserve.h"
#include "lib/server/models/model_set.h"

namespace nvllm::server {

struct SupervisionLimits {
    // Requests are refused as long as the process could not have so much more address space
    // (ulimit -v): requests in flight need memory to end well.
    size_t spare_bytes = size_t{64} << 20;
    // Sequences whose logits were no numbers, after the weights were read again, before the backup
    // takes over.
    int64_t max_nonfinite_after_reload = 3;
};

class ModelSupervisor {
  public:
    using Clock = std::chrono::steady_clock;

    // `reserve`: outlives this; while it is not whole, requests are refused as well.
    // `switch_to_backup`: puts the model's backup in its place; called at most once for a model.
    ModelSupervisor(const SupervisionLimits& limits, MemoryReserve& reserve,
                    std::function<void(const std::shared_ptr<HostedModel>&)> switch_to_backup)
        : limits_(limits), reserve_(reserve), switch_to_backup_(std::move(switch_to_backup)) {}

    void check(const ModelSet& models, Clock::time_point now);

  private:
    struct Known {
        int64_t weight_reloads = 0;
        int64_t nonfinite_at_reload = 0;
        bool is_switched = false;
    };
    void check_model(const std::shared_ptr<HostedModel>& model, Known& known);

    const SupervisionLimits limits_;
    MemoryReserve& reserve_;
    const std::function<void(const std::shared_ptr<HostedModel>&)> switch_to_backup_;
    std::unordered_map<std::string, Known> known_;
};

}  // namespace nvllm::server
