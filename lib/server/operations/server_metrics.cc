// The server's own families, and what is refreshed at a scrape.
#include "lib/server/operations/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/log.h"
#include "lib/server/operations/histogram_buckets.h"

namespace nvllm::server {
namespace {

constexpr std::array<const char*, kNumTimeoutKinds> kTimeouts = {
    "header", "body", "idle", "write", "queue", "request", "step"};
constexpr std::array<std::string_view, 7> kMethods = {"GET",    "POST",    "HEAD", "PUT",
                                                      "DELETE", "OPTIONS", "PATCH"};
constexpr const char* kOtherModels = "other";

std::string_view method_label(std::string_view method) {
    return std::ranges::find(kMethods, method) == kMethods.end() ? "other" : method;
}

bool is_status(int status) { return status >= 100 && status < 600; }

}  // namespace

const char* timeout_kind_name(TimeoutKind kind) { return kTimeouts[static_cast<size_t>(kind)]; }

ServerMetrics::HttpFamilies::HttpFamilies(MetricsRegistry& registry)
    : requests(registry.counter("http_requests_total",
                                "HTTP requests by route, method and class of status.",
                                {"handler", "method", "status"})),
      responses(
          registry.counter("nvllm_http_responses_total", "HTTP answers by status code.", {"code"})),
      duration(registry.histogram("http_request_duration_seconds",
                                  "Time from the first byte read to the last one written.",
                                  kHttpEdges, {"handler", "method"})),
      request_size(registry.histogram("http_request_size_bytes", "Bytes of requests' bodies.",
                                      kByteEdges, {"handler"})),
      response_size(registry.histogram("http_response_size_bytes", "Bytes of answers' bodies.",
                                       kByteEdges, {"handler"})) {}

ServerMetrics::DeviceFamilies::DeviceFamilies(MetricsRegistry& registry)
    : utilisation(registry.gauge("nvllm_device_utilization_ratio",
                                 "Share of the time in which the device computed.",
                                 {"device", "product"})),
      memory_used(registry.gauge("nvllm_device_memory_used_bytes", "Memory of the device in use.",
                                 {"device", "product"})),
      memory_total(registry.gauge("nvllm_device_memory_total_bytes", "Memory of the device.",
                                  {"device", "product"})),
      temperature(registry.gauge("nvllm_device_temperature_celsius", "Temperature of the device.",
                                 {"device", "product"})) {}

ServerMetrics::ServerMetrics(const ServerMetricsOptions& options)
    : options_(options),
      model_families_(registry_, options.most_tokens),
      http_(registry_),
      device_families_(registry_),
      timeouts_(registry_.counter("nvllm_timeouts_total", "What ran out of time.", {"what"})),
      loop_lag_(registry_
                    .histogram("nvllm_event_loop_lag_seconds",
                               "How much later than planned timers of I/O threads fired.",
                               kLoopLagEdges)
                    .with({})),
      streams_paused_(
          registry_.gauge("nvllm_stream_paused", "Streams that wait for their clients to read.")
              .with({})) {
    for (const char* kind : kTimeouts) timeouts_.with({kind});
    registry_.gauge("nvllm_build_info", "Which build this is.", {"version"})
        .with({options_.version})
        .set(1.0);
    declare_process();
    if (options_.vllm_names) vllm_families_.emplace(registry_, model_families_);
    registry_.on_scrape([this] { refresh(); });
}

void ServerMetrics::declare_process() {
    const auto declare = [this](MetricType type, const char* name, const char* help, auto value) {
        registry_.function(type, name, help,
                           [this, value] { return static_cast<double>(value(process_)); });
    };
    declare(MetricType::counter, "process_cpu_seconds_total", "Processor time, of all threads.",
            [](const ProcessStats& process) { return process.cpu_s; });
    declare(MetricType::gauge, "process_resident_memory_bytes", "Resident memory.",
            [](const ProcessStats& process) { return process.resident_bytes; });
    declare(MetricType::gauge, "process_virtual_memory_bytes", "Virtual memory.",
            [](const ProcessStats& process) { return process.virtual_bytes; });
    declare(MetricType::gauge, "process_open_fds", "Open files.",
            [](const ProcessStats& process) { return process.num_open_files; });
    declare(MetricType::gauge, "process_max_fds", "Open files at most.",
            [](const ProcessStats& process) { return process.max_open_files; });
    declare(MetricType::gauge, "process_threads", "Threads.",
            [](const ProcessStats& process) { return process.num_threads; });
    declare(MetricType::gauge, "process_start_time_seconds", "Start, in seconds since 1970.",
            [](const ProcessStats& process) { return process.start_time_s; });
    registry_.function(MetricType::counter, "nvllm_log_lines_dropped_total",
                       "Lines of the log that could not be written.",
                       [] { return static_cast<double>(log_lines_dropped()); });
}

ModelMetrics& ServerMetrics::model(const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto found = models_.find(name);
    if (found == models_.end()) {
        const std::string& kept = models_.size() < kMaxModels ? name : kOtherModels;
        found = models_.try_emplace(kept).first;
        if (found->second == nullptr) {
            found->second = std::make_unique<ModelMetrics>(
                kept, model_families_, vllm_families_ ? &*vllm_families_ : nullptr);
        }
    }
    return *found->second;
}

void ServerMetrics::observe_http(const HttpRequestSample& transaction) {
    const std::string_view method = method_label(transaction.method);
    const bool known = is_status(transaction.status);
    http_.requests
        .with({transaction.handler, method,
               known ? fmt::format("{}xx", transaction.status / 100) : std::string("other")})
        .add();
    http_.responses.with({known ? fmt::format("{}", transaction.status) : std::string("other")})
        .add();
    http_.duration.with({transaction.handler, method}).observe(transaction.seconds);
    http_.request_size.with({transaction.handler})
        .observe(static_cast<double>(transaction.request_bytes));
    http_.response_size.with({transaction.handler})
        .observe(static_cast<double>(transaction.response_bytes));
}

void ServerMetrics::timed_out(TimeoutKind kind) { timeouts_.with({timeout_kind_name(kind)}).add(); }

void ServerMetrics::set_devices(std::function<std::vector<DeviceStats>()> devices) {
    const std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
}

void ServerMetrics::refresh() {
    process_ = process_stats();
    std::vector<ModelMetrics*> models;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [name, model] : models_) models.push_back(model.get());
        refresh_devices();
    }
    for (ModelMetrics* model : models) model->refresh();
}

// A device that is no longer reported is no longer shown.
void ServerMetrics::refresh_devices() {
    const std::vector<DeviceStats> devices = devices_ ? devices_() : std::vector<DeviceStats>{};
    for (const auto& [device, product] : known_devices_) {
        for (GaugeFamily* family :
             {&device_families_.utilisation, &device_families_.memory_used,
              &device_families_.memory_total, &device_families_.temperature}) {
            family->with({device, product}).forget();
        }
    }
    for (const DeviceStats& one : devices) {
        known_devices_.emplace(one.device, one.product_name);
        const auto set = [&](GaugeFamily& family, double value) {
            family.with({one.device, one.product_name}).set(value);
        };
        set(device_families_.utilisation, one.utilisation);
        set(device_families_.memory_used, static_cast<double>(one.memory_used_bytes));
        set(device_families_.memory_total, static_cast<double>(one.memory_total_bytes));
        set(device_families_.temperature, one.temperature_celsius);
    }
}

}  // namespace nvllm::server
