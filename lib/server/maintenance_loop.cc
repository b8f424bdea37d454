// One look after the other.
#include "lib/server/maintenance_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "lib/base/log.h"
#include "lib/server/config/server_parts.h"

namespace nvllm::server {
namespace {

constexpr std::chrono::milliseconds kBetweenAlertLooks{2000};

// Its own recovery does not help it.
bool is_stuck(const std::shared_ptr<HostedModel>& model) {
    if (model->state() != ModelState::ready) return false;
    const EngineState state = model->engine()->health().state;
    return state == EngineState::stalled || state == EngineState::failed;
}

}  // namespace

MaintenanceLoop::MaintenanceLoop(const Maintained& around)
    : around_(around),
      timeouts_(call_timeouts(around.config)),
      care_({}, around.reserve,
            [this](const std::shared_ptr<HostedModel>& model) { around_.loader.replace(model); }),
      alerts_(make_alert_rules(around.config)),
      throughput_(around.config.log_stats_interval_s) {}

void MaintenanceLoop::look(Clock::time_point now) {
    around_.metrics.event_loop_lag(std::chrono::duration<double>(now - expected_at_).count());
    expected_at_ = now + kInterval;
    for (const auto& call : around_.calls.all()) call->check_deadlines(timeouts_, now);
    care_.look(around_.models, now);
    if (!alerts_.empty() && now >= next_alert_look_) {
        next_alert_look_ = now + kBetweenAlertLooks;
        run_aside([this] { look_for_alerts(); });
    }
    throughput_.look(around_.models, now);
    if (around_.manager.keep_alive_interval() && now >= next_keep_alive_) keep_alive(now);
    if (around_.models.has_unused()) {
        run_aside([this] { around_.loader.end_unused(); });
    }
}

// On a text thread; what lacks memory is tried again at its next turn.
void MaintenanceLoop::run_aside(std::function<void()> work) {
    around_.text.try_run([work = std::move(work)] {
        try {
            work();
        } catch (const std::bad_alloc&) {
            log_error("out of memory beside the requests");
        }
    });
}

void MaintenanceLoop::look_for_alerts() {
    const std::lock_guard lock(alerts_mutex_);
    log_alert_changes(alerts_.update(lookup_in_scrape(around_.metrics.text())));
}

// The manager hears nothing while an engine is stuck.
void MaintenanceLoop::keep_alive(Clock::time_point now) {
    if (std::ranges::any_of(around_.models.all(), is_stuck)) return;
    next_keep_alive_ = now + *around_.manager.keep_alive_interval();
    around_.manager.keep_alive();
}

}  // namespace nvllm::server
