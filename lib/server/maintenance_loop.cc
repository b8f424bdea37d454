// One round of checks after another.
#include "lib/server/maintenance_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "lib/base/log.h"

namespace nvllm::server {
namespace {

constexpr std::chrono::milliseconds kAlertInterval{2000};
constexpr std::chrono::milliseconds kAdapterInterval{1000};

// Its own recovery does not help it.
bool is_stuck(const std::shared_ptr<HostedModel>& model) {
    if (model->state() != ModelState::ready) return false;
    const EngineState state = model->engine()->health().state;
    return state == EngineState::stalled || state == EngineState::failed;
}

}  // namespace

MaintenanceLoop::MaintenanceLoop(const Maintained& parts)
    : parts_(parts),
      timeouts_(parts.config.timeouts),
      supervisor_(
          {}, parts.reserve,
          [this](const std::shared_ptr<HostedModel>& model) { parts_.loader.replace(model); }),
      alerts_(make_alert_rules(parts.config.alerts)),
      throughput_(parts.config.log.stats_interval_s) {}

void MaintenanceLoop::check(Clock::time_point now) {
    parts_.metrics.event_loop_lag(std::chrono::duration<double>(now - expected_at_).count());
    expected_at_ = now + kInterval;
    const ActiveRequests::Snapshot requests = parts_.requests.snapshot();
    for (const auto& request : requests.open) request->check_deadlines(timeouts_, now);
    supervisor_.check(parts_.models, now);
    if (!alerts_.empty() && now >= next_alert_check_) {
        next_alert_check_ = now + kAlertInterval;
        run_aside([this] { check_alerts(); });
    }
    if (now >= next_adapter_check_) {
        next_adapter_check_ = now + kAdapterInterval;
        check_adapters();
    }
    throughput_.check(parts_.models, now);
    if (parts_.manager.keep_alive_interval() && now >= next_keep_alive_) keep_alive(now);
    if (parts_.models.has_unused()) {
        run_aside([this] { parts_.loader.end_unused(); });
    }
}

// On a tokenizer thread. Work that fails for lack of memory is repeated in the next round.
void MaintenanceLoop::run_aside(std::function<void()> work) {
    parts_.text.try_run([work = std::move(work)] {
        try {
            work();
        } catch (const std::bad_alloc&) {
            log_error("out of memory in periodic work");
        }
    });
}

void MaintenanceLoop::check_alerts() {
    const std::lock_guard lock(alerts_mutex_);
    log_alert_changes(alerts_.update(lookup_in_scrape(parts_.metrics.text())));
}

// Of folders that are watched (--lora-dir).
void MaintenanceLoop::check_adapters() {
    for (const auto& model : parts_.models.all()) {
        if (model->config().lora.folder.empty() || model->engine() == nullptr) continue;
        run_aside([model] {
            for (const std::string& fault : model->engine()->adapters().check_folder()) {
                log_warning(fault);
            }
        });
    }
}

// The manager hears nothing while an engine is stuck.
void MaintenanceLoop::keep_alive(Clock::time_point now) {
    if (std::ranges::any_of(parts_.models.all(), is_stuck)) return;
    next_keep_alive_ = now + *parts_.manager.keep_alive_interval();
    parts_.manager.keep_alive();
}

}  // namespace nvllm::server
