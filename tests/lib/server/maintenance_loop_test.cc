// One round of checks after another.
#include "lib/server/maintenance_loop.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "kernels/error.h"
#include "tests/lib/base/manager_listener.h"
#include "tests/lib/base/prometheus_text.h"

using namespace nvllm;
using namespace nvllm::server;
using std::chrono::milliseconds;

namespace {

class WatchedRequest final : public ActiveRequest {
  public:
    void check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) override {
        timeouts_seen = timeouts;
        seen_at = now;
    }
    Usage usage() const override { return {}; }
    RequestStats stats() const override { return {}; }

    RequestTimeouts timeouts_seen;
    std::optional<Clock::time_point> seen_at;
};

struct Surroundings {
    explicit Surroundings(ServerConfig given = {}, ServiceManager told = {})
        : config(std::move(given)), manager(std::move(told)) {}

    const ServerConfig config;
    const ServiceManager manager;
    ServerMetrics metrics;
    ModelSet models;
    ModelLoader loader{
        {config.admission, config.requests}, config.served.backup_model, models, metrics};
    ActiveRequests calls;
    MemoryReserve reserve{size_t{1} << 20, milliseconds(100)};
    MaintenanceLoop maintenance{{config, manager, metrics, models, loader, calls, text, reserve}};
    TaskPool text{1, 8};
};

}  // namespace

TEST_CASE("maintenance loop: requests are held to the options' times") {
    ServerConfig config;
    config.timeouts.request_s = 2.5;
    Surroundings parts(config);
    const auto call = std::make_shared<WatchedRequest>();
    parts.calls.add(call);
    const auto now = MaintenanceLoop::Clock::now();
    parts.maintenance.check(now);
    CHECK(call->seen_at == now);
    CHECK(call->timeouts_seen.request_s == 2.5);
}

TEST_CASE("maintenance loop: how late it comes is measured") {
    Surroundings parts;
    const auto lag = [&] {
        const test::PrometheusText text(parts.metrics.text());
        return text.value("nvllm_event_loop_lag_seconds_sum");
    };
    const auto now = MaintenanceLoop::Clock::now();
    parts.maintenance.check(now);
    const double before = lag();
    parts.maintenance.check(now + MaintenanceLoop::kInterval + milliseconds(500));
    CHECK(lag() - before == doctest::Approx(0.5));
}

TEST_CASE("maintenance loop: a model that went and that nobody uses is ended") {
    Surroundings parts;
    parts.loader.add({"one"}, {});
    CHECK_FALSE(parts.loader.unload("one"));
    REQUIRE(parts.models.has_unused());
    parts.maintenance.check(MaintenanceLoop::Clock::now());
    while (parts.models.has_unused()) std::this_thread::yield();
    CHECK(parts.models.all_active().empty());
}

TEST_CASE("maintenance loop: the manager hears at its interval that the server lives") {
    test::ManagerListener listener;
    ::setenv("WATCHDOG_USEC", "2000000", 1);
    Surroundings parts({}, ServiceManager::from_environment());
    const auto now = MaintenanceLoop::Clock::now();
    parts.maintenance.check(now);
    CHECK(listener.heard() == "WATCHDOG=1");
    parts.maintenance.check(now + milliseconds(999));
    CHECK(listener.heard().empty());
    parts.maintenance.check(now + milliseconds(1000));
    CHECK(listener.heard() == "WATCHDOG=1");
}

TEST_CASE("maintenance loop: rules for alerts are read at once") {
    ServerConfig config;
    config.alerts.rules = {"no rule"};
    CHECK_THROWS_AS(Surroundings{config}, Error);
}
