// Periodic checks of a running server: deadlines, the health of models, alerts, unused models; and
// the keep-alives of the service manager.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

#include "lib/base/task_pool.h"
#include "lib/server/config/server_config.h"
#include "lib/server/http/memory_reserve.h"
#include "lib/server/models/model_loader.h"
#include "lib/server/models/model_supervisor.h"
#include "lib/server/models/throughput_log.h"
#include "lib/server/operations/alert_rules.h"
#include "lib/server/requests/active_requests.h"
#include "lib/system/service_manager.h"

namespace nvllm::server {

// All of it outlives the loop. Tasks of the tokenizer threads may refer to the loop until they end:
// join those threads before the loop is destroyed.
struct Maintained {
    const ServerConfig& config;
    const ServiceManager& manager;
    ServerMetrics& metrics;
    ModelSet& models;
    ModelLoader& loader;
    const ActiveRequests& requests;
    TaskPool& text;
    MemoryReserve& reserve;
};

class MaintenanceLoop {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kInterval{50};

    // Throws usage for a text of --alert-rules that is no rule.
    explicit MaintenanceLoop(const Maintained& parts);

    // On the I/O thread, once every kInterval; longer work goes to the tokenizer threads.
    void check(Clock::time_point now);

  private:
    void run_aside(std::function<void()> work);
    void check_alerts();
    void check_adapters();
    void keep_alive(Clock::time_point now);

    const Maintained parts_;
    const RequestTimeouts timeouts_;
    ModelSupervisor supervisor_;
    std::mutex alerts_mutex_;  // held while a tokenizer thread checks
    AlertRules alerts_;
    ThroughputLog throughput_;
    Clock::time_point expected_at_ = Clock::now() + kInterval;
    Clock::time_point next_alert_check_{};
    Clock::time_point next_adapter_check_{};
    Clock::time_point next_keep_alive_{};
};

}  // namespace nvllm::server
