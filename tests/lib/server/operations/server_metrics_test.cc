// Every family, with one of everything; what bounds labels; what is switched off.
#include "lib/server/operations/server_metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "lib/base/file.h"
#include "tests/lib/base/prometheus_text.h"
#include "tests/lib/server/metered_requests.h"

namespace nvllm::server {
namespace {

using nvllm::test::Labels;
using nvllm::test::PrometheusText;

EngineStats some_stats() {
    EngineStats stats;
    stats.scheduler.num_running = 3;
    stats.scheduler.num_waiting = 2;
    stats.scheduler.num_paused = 1;
    stats.scheduler.token_budget = 512;
    stats.scheduler.preemptions = 4;
    stats.scheduler.stalled_steps = 1;
    stats.scheduler.speculation = {
        .drafts = 10, .draft_tokens = 40, .accepted_tokens = 9, .accepted_per_position = {6, 2, 1}};
    AdapterStats& adapters = stats.scheduler.adapters;
    adapters.num_hot = 2;
    adapters.num_warm = 5;
    adapters.arrivals = {30, 20, 10};
    adapters.loads = 12;
    adapters.loaded_bytes = 4096;
    adapters.load_ms = 2.5;
    adapters.evictions = 6;
    adapters.failures = 1;
    adapters.running = {"style", "task"};
    adapters.waiting = {"other"};
    stats.scheduler.recomputed_tokens = 77;
    stats.cache.blocks = {100, 40, 25, 35, 9};
    stats.cache.queried_tokens = 1000;
    stats.cache.hit_tokens = 250;
    stats.cache.disk_tier = {.blocks_held = 7, .blocks_kept = 2};
    stats.cache.host_tier = {.blocks_held = 5,
                             .blocks_kept = 9,
                             .blocks_back = 4,
                             .blocks_dropped = 3,
                             .hit_tokens = 64};
    stats.fragmentation = 0.125;
    stats.faults = {.worker_restarts = 1, .nonfinite_rows = 1, .out_of_memory = 1};
    stats.seconds_since_heartbeat = 0.5;
    stats.replicas.resize(2);
    stats.replicas[1] = {.state = EngineState::recovering,
                         .num_routed = 7,
                         .num_running = 1,
                         .num_waiting = 2,
                         .blocks = {50, 10, 20, 20, 0},
                         .queried_tokens = 300,
                         .hit_tokens = 100};
    return stats;
}

StepRecord some_step() {
    StepRecord step;
    step.num_sequences = 3;
    step.num_tokens = 40;
    step.step_ms = 12.5;
    step.swapped_bytes = 4096;
    return step;
}

// Everything that can happen to a server happens once.
void see_everything(ServerMetrics& metrics) {
    ModelMetrics& model = metrics.model("demo");
    model.set_engine(some_stats);
    EngineConfig config;
    config.lora.enabled = true;
    MemoryPlan plan;
    plan.block_size = 16;
    plan.num_blocks = {60, 40};
    plan.num_host_blocks = {8};
    model.set_cache_config(config, plan);
    test::run_request(model, 1, 5);
    {
        RequestMetrics recorder(model, test::request_of(4));
        recorder.aborting(AbortCause::disconnect);
        recorder.observe(test::MadeOutputs(2, 0.0).last(1.0, {FinishReason::cancelled}));
    }
    model.observe_step(some_step());
    model.rejected("queue_full");
    for (size_t level = 0; level < kNumRecoveryLevels; ++level) {
        model.recovered(static_cast<RecoveryLevel>(level));
    }
    model.device_reset();
    metrics.observe_http({"/v1/chat/completions", "POST", 200, 0.25, 512, 2048});
    metrics.observe_http({"/v1/chat/completions", "POST", 429, 0.001, 512, 128});
    metrics.event_loop_lag(0.0002);
    metrics.stream_paused(true);
    for (size_t kind = 0; kind < kNumTimeoutKinds; ++kind) {
        metrics.timed_out(static_cast<TimeoutKind>(kind));
    }
    metrics.set_devices([] {
        return std::vector<DeviceStats>{
            {"0", "A Device", 0.5, uint64_t{10} << 30, uint64_t{80} << 30, 61.0}};
    });
}

TEST_CASE("one of everything") {
    ServerMetrics metrics({.version = "1.2.3"});
    see_everything(metrics);
    const std::string text = metrics.text();
    // For the check of dashboards and alerts, which reads names and labels here.
    if (const char* file = std::getenv("NVLLM_METRICS_TEXT")) write_file(file, text);
    const PrometheusText read(text);
    const Labels model = {{"model_name", "demo"}};
    const auto of = [&](const std::string& name, const std::string& label,
                        const std::string& value) {
        return read.value(name, {{"model_name", "demo"}, {label, value}});
    };
    CHECK(read.value("nvllm_sequences_running", model) == 3.0);
    CHECK(read.value("nvllm_sequences_waiting", model) == 2.0);
    CHECK(of("nvllm_replica_up", "replica", "0") == 1.0);
    CHECK(of("nvllm_replica_up", "replica", "1") == 0.0);
    CHECK(of("nvllm_replica_requests_total", "replica", "1") == 7.0);
    CHECK(of("nvllm_replica_sequences_running", "replica", "1") == 1.0);
    CHECK(of("nvllm_replica_sequences_waiting", "replica", "1") == 2.0);
    CHECK(of("nvllm_replica_kv_cache_usage_ratio", "replica", "1") == 0.2);
    CHECK(of("nvllm_replica_prefix_cache_queried_tokens_total", "replica", "1") == 300.0);
    CHECK(of("nvllm_replica_prefix_cache_hit_tokens_total", "replica", "1") == 100.0);
    CHECK(of("nvllm_kv_tier_blocks", "tier", "host") == 5.0);
    CHECK(of("nvllm_kv_tier_blocks", "tier", "disk") == 7.0);
    CHECK(of("nvllm_kv_tier_hit_tokens_total", "tier", "host") == 64.0);
    CHECK(read.value("nvllm_kv_tier_moves_total",
                     {{"model_name", "demo"}, {"tier", "host"}, {"event", "brought back"}}) == 4.0);
    CHECK(of("vllm:num_requests_running", "engine", "0") == 3.0);
    CHECK(of("vllm:num_requests_waiting", "engine", "0") == 2.0);
    CHECK(of("vllm:kv_cache_usage_perc", "engine", "0") == 0.4);
    CHECK(of("vllm:num_preemptions_total", "engine", "0") == 4.0);
    CHECK(of("vllm:prefix_cache_queries_total", "engine", "0") == 1000.0);
    CHECK(of("vllm:prefix_cache_hits_total", "engine", "0") == 250.0);
    CHECK(of("vllm:corrupted_requests_total", "engine", "0") == 1.0);
    CHECK(read.value("vllm:admission_rejections_total",
                     {{"model_name", "demo"}, {"engine", "0"}, {"reason", "queue_full"}}) == 1.0);
    CHECK(of("vllm:iteration_tokens_total_sum", "engine", "0") == 40.0);
    CHECK(read.value("vllm:cache_config_info", {{"engine", "0"},
                                                {"model_name", "demo"},
                                                {"block_size", "16"},
                                                {"cache_dtype", "float32"},
                                                {"enable_prefix_caching", "True"},
                                                {"num_gpu_blocks", "100"},
                                                {"num_cpu_blocks", "8"},
                                                {"swap_space_bytes", "0"},
                                                {"eviction_policy", "lru"}}) == 1.0);
    CHECK(of("vllm:spec_decode_num_drafts_total", "engine", "0") == 10.0);
    CHECK(of("vllm:spec_decode_num_draft_tokens_total", "engine", "0") == 40.0);
    CHECK(of("vllm:spec_decode_num_accepted_tokens_total", "engine", "0") == 9.0);
    CHECK(of("nvllm_accepted_draft_tokens_per_position_total", "position", "1") == 2.0);
    CHECK(read.value("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                     {{"model_name", "demo"}, {"engine", "0"}, {"position", "0"}}) == 6.0);
    CHECK(of("nvllm_adapters", "tier", "hot") == 2.0);
    CHECK(of("nvllm_adapters", "tier", "warm") == 5.0);
    CHECK(of("nvllm_adapter_requests_total", "tier", "hot") == 30.0);
    CHECK(of("nvllm_adapter_requests_total", "tier", "cold") == 10.0);
    CHECK(read.value("nvllm_adapter_loads_total", model) == 12.0);
    CHECK(read.value("nvllm_adapter_loaded_bytes_total", model) == 4096.0);
    CHECK(read.value("nvllm_adapter_load_milliseconds_total", model) == 2.0);
    CHECK(read.value("nvllm_adapter_evictions_total", model) == 6.0);
    CHECK(read.value("nvllm_adapter_failures_total", model) == 1.0);
    CHECK(read.value("vllm:lora_requests_info", {{"engine", "0"},
                                                 {"model_name", "demo"},
                                                 {"max_lora", "8"},
                                                 {"waiting_lora_adapters", "other"},
                                                 {"running_lora_adapters", "style,task"}}) > 1e9);
    CHECK(of("nvllm_kv_blocks", "state", "used") == 40.0);
    CHECK(of("nvllm_kv_blocks", "state", "cached") == 25.0);
    CHECK(of("nvllm_kv_blocks", "state", "free") == 35.0);
    CHECK(read.value("nvllm_kv_fragmentation_ratio", model) == 0.125);
    CHECK(read.value("nvllm_prefix_cache_hit_ratio", model) == 0.25);
    CHECK(read.value("nvllm_kv_evictions_total", model) == 9.0);
    CHECK(read.value("nvllm_empty_steps_total", model) == 1.0);
    CHECK(read.value("nvllm_engine_heartbeat_seconds", model) == 0.5);
    CHECK(read.value("nvllm_step_seconds_sum", model) == 0.0125);
    CHECK(read.value("nvllm_swapped_bytes_total", model) == 4096.0);
    CHECK(of("nvllm_recoveries_total", "level", "operator") == 1.0);
    CHECK(read.value("nvllm_timeouts_total", {{"what", "queue"}}) == 1.0);
    CHECK(read.value("nvllm_stream_paused") == 1.0);
    CHECK(read.value("nvllm_build_info", {{"version", "1.2.3"}}) == 1.0);
    CHECK(read.value(
              "http_requests_total",
              {{"handler", "/v1/chat/completions"}, {"method", "POST"}, {"status", "2xx"}}) == 1.0);
    CHECK(read.value("nvllm_http_responses_total", {{"code", "200"}}) == 1.0);
    CHECK(read.value("http_response_size_bytes_sum", {{"handler", "/v1/chat/completions"}}) ==
          2176.0);
    CHECK(read.value("process_resident_memory_bytes") > 1e6);
    CHECK(read.value("process_open_fds") >= 3.0);
    CHECK(read.value("process_cpu_seconds_total") > 0.0);
    CHECK(read.value("nvllm_device_temperature_celsius",
                     {{"device", "0"}, {"product", "A Device"}}) == 61.0);
    // Nothing was left out.
    for (const auto& [name, family] : read.families()) CHECK_MESSAGE(!family.help.empty(), name);
    CHECK(read.families().size() > 80);
}

TEST_CASE("vLLM's edges are vLLM's, and its names and their native twins agree") {
    ServerMetrics metrics({.most_tokens = 4096});
    see_everything(metrics);
    const PrometheusText read(metrics.text());
    const auto edges = [&](const std::string& family) {
        std::set<std::string> found;
        for (const auto& [key, value] : read.families().at(family).samples) {
            if (key.second.count("le") > 0) found.insert(key.second.at("le"));
        }
        found.erase("+Inf");
        return found;
    };
    const std::set<std::string> inter_token = {
        "0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5",
        "0.75", "1",     "2.5",  "5",     "7.5", "10",   "20",  "40",  "80"};
    CHECK(edges("vllm:inter_token_latency_seconds") == inter_token);
    CHECK(edges("vllm:time_per_output_token_seconds") == inter_token);
    CHECK(edges("vllm:time_to_first_token_seconds").size() == 22);
    CHECK(edges("vllm:e2e_request_latency_seconds").size() == 21);
    CHECK(edges("vllm:e2e_request_latency_seconds").count("7680") == 1);
    CHECK(edges("vllm:e2e_request_latency_seconds").count("0.2") == 0);
    CHECK(edges("vllm:request_prompt_tokens") == std::set<std::string>{"1", "2", "5", "10", "20",
                                                                       "50", "100", "200", "500",
                                                                       "1000", "2000"});
    CHECK(edges("nvllm_inter_token_seconds").count("0.00025") == 1);
    CHECK(edges("nvllm_step_seconds").count("0.00025") == 1);
}

TEST_CASE("vLLM's names can be switched off, and devices come and go") {
    ServerMetrics metrics({.vllm_names = false});
    see_everything(metrics);
    const PrometheusText read(metrics.text());
    for (const auto& [name, family] : read.families()) {
        CHECK_MESSAGE(name.find("vllm:") == std::string::npos, name);
    }
    CHECK(read.has("nvllm_inter_token_seconds"));
    CHECK(read.has("nvllm_device_utilization_ratio"));
    metrics.set_devices({});
    CHECK_FALSE(PrometheusText(metrics.text()).has("nvllm_device_utilization_ratio"));
}

TEST_CASE("without an engine its gauges are not there, and counters stay") {
    ServerMetrics metrics;
    see_everything(metrics);
    CHECK(PrometheusText(metrics.text()).has("nvllm_kv_blocks"));
    metrics.model("demo").set_engine({});
    const PrometheusText read(metrics.text());
    CHECK_FALSE(read.has("nvllm_kv_blocks"));
    CHECK_FALSE(read.has("vllm:num_requests_running"));
    CHECK(read.value("nvllm_preemptions_total", {{"model_name", "demo"}}) == 4.0);
}

TEST_CASE("several models stand beside each other") {
    ServerMetrics metrics;
    test::run_request(metrics.model("a"), 1, 3);
    test::run_request(metrics.model("b"), 2, 4);
    CHECK(&metrics.model("a") == &metrics.model("a"));
    const PrometheusText read(metrics.text());
    CHECK(read.value("nvllm_generated_tokens_total", {{"model_name", "a"}}) == 3.0);
    CHECK(read.value("nvllm_generated_tokens_total", {{"model_name", "b"}}) == 4.0);
    CHECK(read.sum("vllm:generation_tokens_total") == 7.0);
}

TEST_CASE("a rate sees the first refusal, whatever its reason") {
    ServerMetrics metrics;
    metrics.model("demo");
    for (const std::string_view reason : kRejectionReasons) {
        const Labels child = {{"model_name", "demo"}, {"reason", std::string(reason)}};
        CHECK(PrometheusText(metrics.text()).value("nvllm_requests_rejected_total", child) == 0.0);
        metrics.model("demo").rejected(reason);
        CHECK(PrometheusText(metrics.text()).value("nvllm_requests_rejected_total", child) == 1.0);
    }
}

// Whatever clients and operators come up with, the number of lines has an end.
TEST_CASE("the cardinality of labels is bounded") {
    ServerMetrics metrics;
    for (int i = 0; i < 5000; ++i) {
        const std::string text = "x" + std::to_string(i);
        metrics.observe_http({"/" + text, text, i, 0.1, 1, 1});
        if (i < 500) test::run_request(metrics.model(text), 1, 2);
        metrics.model("m").rejected(text);
    }
    const PrometheusText read(metrics.text());
    const double models = ServerMetrics::kMaxModels + 1;
    std::set<std::string> names;
    for (const auto& [key, value] : read.families().at("nvllm_requests_accepted_total").samples) {
        names.insert(key.second.at("model_name"));
    }
    CHECK(static_cast<double>(names.size()) == models);
    for (const auto& [name, family] : read.families()) {
        std::set<Labels> children;
        for (const auto& [key, value] : family.samples) {
            Labels labels = key.second;
            labels.erase("le");
            children.insert(labels);
        }
        CHECK_MESSAGE(children.size() <= MetricsRegistry::kMaxChildren + 1, name);
    }
    CHECK(read.sum("nvllm_requests_accepted_total") == 500.0);
    CHECK(read.sum("http_requests_total") == 5000.0);
    CHECK(read.sum("nvllm_requests_rejected_total") == 5000.0);
}

}  // namespace
}  // namespace nvllm::server
