// All metrics of a server: those of its models, its HTTP layer, the process and its devices.
//
// Threads: any. Models and families stay until the object goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/server/http/timeout_kind.h"
#include "lib/server/operations/metric_families.h"
#include "lib/server/operations/model_metrics.h"
#include "lib/system/process_info.h"

namespace nvllm::server {

struct ServerMetricsOptions {
    bool vllm_names = true;  // vLLM's names in addition to our own
    std::string version = "unknown";
    int64_t most_tokens = 131'072;  // the longest context of any model: edges of token counts
};

// One request and its response, once the response is written.
struct HttpRequestSample {
    std::string_view handler;  // the route as it is declared, never the path that was asked for
    std::string_view method;
    int status = 200;
    double seconds = 0.0;  // from the first byte read to the last one written
    uint64_t request_bytes = 0;
    uint64_t response_bytes = 0;
};

const char* timeout_kind_name(TimeoutKind kind);

struct DeviceStats {
    std::string device;        // "0"
    std::string product_name;  // "NVIDIA H100 80GB HBM3"
    double utilisation = 0.0;  // 0 to 1
    uint64_t memory_used_bytes = 0;
    uint64_t memory_total_bytes = 0;
    double temperature_celsius = 0.0;
};

class ServerMetrics {
  public:
    static constexpr size_t kMaxModels = 64;

    explicit ServerMetrics(const ServerMetricsOptions& options = {});
    ServerMetrics(const ServerMetrics&) = delete;
    ServerMetrics& operator=(const ServerMetrics&) = delete;

    // The metrics of the model of this name, made when they are not there; beyond kMaxModels those
    // of all others together. REQUIRES: the name is one that is served, never one out of a request.
    ModelMetrics& model(const std::string& name);

    void observe_http(const HttpRequestSample& transaction);
    // How much later than planned a timer of an I/O thread fired.
    void event_loop_lag(double seconds) { loop_lag_.observe(seconds); }
    // A stream's client reads too slowly: its request gives way until it is not paused any more.
    void stream_paused(bool is_paused) { streams_paused_.add(is_paused ? 1.0 : -1.0); }
    void timed_out(TimeoutKind kind);
    // Where stats of devices come from; without it there are none. May be called again, and with
    // an empty function.
    void set_devices(std::function<std::vector<DeviceStats>()> devices);

    // For further families of other parts.
    MetricsRegistry& registry() { return registry_; }

    // The response to a scrape; its type is kContentType.
    std::string text() { return registry_.text(); }
    static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  private:
    struct HttpFamilies {
        explicit HttpFamilies(MetricsRegistry& registry);
        CounterFamily& requests;   // handler, method, status: 2xx
        CounterFamily& responses;  // code
        HistogramFamily& duration;
        HistogramFamily& request_size;
        HistogramFamily& response_size;
    };
    struct DeviceFamilies {
        explicit DeviceFamilies(MetricsRegistry& registry);
        GaugeFamily& utilisation;
        GaugeFamily& memory_used;
        GaugeFamily& memory_total;
        GaugeFamily& temperature;
    };

    void declare_process();
    void refresh();
    void refresh_devices();

    ServerMetricsOptions options_;
    MetricsRegistry registry_;
    ModelFamilies model_families_;
    std::optional<VllmFamilies> vllm_families_;
    HttpFamilies http_;
    DeviceFamilies device_families_;
    CounterFamily& timeouts_;
    Histogram& loop_lag_;
    Gauge& streams_paused_;
    ProcessStats process_;  // as of the scrape in flight

    std::mutex mutex_;
    std::map<std::string, std::unique_ptr<ModelMetrics>> models_;
    std::function<std::vector<DeviceStats>()> devices_;
    std::set<std::pair<std::string, std::string>> known_devices_;  // device, product name
};

}  // namespace nvllm::server
