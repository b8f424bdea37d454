// Metrics and timeline of a real engine with a small model, whose cache is too small for all.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "lib/base/json.h"
#include "lib/engine/input_processor.h"
#include "lib/server/operations/request_metrics.h"
#include "lib/server/operations/server_metrics.h"
#include "tests/lib/base/prometheus_text.h"
#include "tests/shared_data.h"

namespace nvllm::server {
namespace {

using nvllm::test::Labels;
using nvllm::test::PrometheusText;

const Labels kModel = {{"model_name", "demo"}};

EngineConfig crowded_config() {
    EngineConfig config;
    config.model.name = nvllm::test::source_path("models/demo-draft").string();
    config.compute.placement.num_threads = 1;
    config.memory.kv_cache_bytes = uint64_t{3} << 18;
    config.memory.max_model_len = 512;
    return config;
}

class MeteredEngine {
  public:
    MeteredEngine() : engine_(crowded_config()), model_(metrics_.model("demo")), timeline_("demo") {
        model_.set_engine([this] { return engine_.stats(); });
        model_.set_cache_config(crowded_config(), engine_.memory_plan());
        engine_.set_step_listener([this](const StepRecord& step) {
            model_.observe_step(step);
            timeline_.observe_step(step);
            CHECK(step.began_s >= last_step_end_s_);
            last_step_end_s_ = step.began_s + step.step_ms / 1000.0;
            num_steps_ += 1;
        });
    }
    ~MeteredEngine() { engine_.stop(); }

    // With `abort_after` tokens seen, the request is taken back.
    void submit(const std::string& prompt, int32_t max_tokens, int32_t n = 1,
                int32_t abort_after = 1'000'000) {
        RequestInput input;
        input.prompt = prompt;
        input.sampling.max_tokens = max_tokens;
        input.sampling.ignore_eos = true;
        input.sampling.n = n;
        input.sampling.seed = 1;
        Request request = std::move(engine_.prepare(input).value_or_throw());
        auto metrics = std::make_shared<RequestMetrics>(model_, request, &timeline_);
        auto seen = std::make_shared<int32_t>(0);
        engine_.submit(std::move(request), [=, this](RequestOutput&& output) {
            metrics->observe(output);
            CHECK(output.times.output_s >= output.times.arrival_s);
            for (const ContinuationOutput& part : output.continuations) {
                *seen += static_cast<int32_t>(part.token_ids.size());
                usage_ += static_cast<int64_t>(part.token_ids.size());
            }
            if (*seen < abort_after || output.finished) return;
            metrics->aborting(AbortCause::disconnect);
            engine_.cancel(output.request_id);
        });
    }

    void wait_idle() { engine_.wait_idle(); }
    PrometheusText scrape() { return PrometheusText(metrics_.text()); }
    std::string trace() const { return timeline_.chrome_trace(); }
    int64_t usage() const { return usage_; }
    int64_t num_steps() const { return num_steps_; }
    Engine& engine() { return engine_; }

  private:
    Engine engine_;
    ServerMetrics metrics_;
    ModelMetrics& model_;
    RequestTimeline timeline_;
    double last_step_end_s_ = 0.0;
    std::atomic<int64_t> usage_{0};
    std::atomic<int64_t> num_steps_{0};
};

void check_conservation(const PrometheusText& text) {
    CHECK(text.value("nvllm_requests_accepted_total", kModel) ==
          text.sum("nvllm_requests_finished_total", kModel) +
              text.sum("nvllm_requests_aborted_total", kModel) +
              text.value("nvllm_requests_in_flight", kModel));
}

TEST_CASE("figures of an engine under pressure add up when it is idle again") {
    MeteredEngine metered;
    const std::string prompt(200, 'a');
    for (int i = 0; i < 12; ++i) metered.submit(std::to_string(i) + prompt, 100);
    metered.submit(prompt, 40, 3);
    for (int i = 0; i < 4; ++i) metered.submit(std::to_string(i) + prompt, 100, 1, 5);
    double max_running = 0.0;
    for (int i = 0; i < 20; ++i) {
        const PrometheusText text = metered.scrape();
        check_conservation(text);
        max_running = std::max(max_running, text.value("nvllm_sequences_running", kModel));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    metered.wait_idle();
    const PrometheusText text = metered.scrape();
    check_conservation(text);
    const auto value = [&](const std::string& name) { return text.value(name, kModel); };
    CHECK(max_running > 0.0);
    CHECK(value("nvllm_sequences_running") == 0.0);
    CHECK(value("nvllm_sequences_waiting") == 0.0);
    CHECK(value("nvllm_requests_accepted_total") == 17.0);
    CHECK(value("nvllm_requests_in_flight") == 0.0);
    CHECK(text.sum("nvllm_requests_finished_total") == 13.0);
    CHECK(text.value("nvllm_requests_aborted_total",
                     {{"model_name", "demo"}, {"cause", "disconnect"}, {"state", "decode"}}) ==
          4.0);
    CHECK(value("nvllm_abort_latency_seconds_count") == 4.0);
    CHECK(value("nvllm_generated_tokens_total") == static_cast<double>(metered.usage()));
    CHECK(value("nvllm_generated_tokens_total") == value("nvllm_request_generated_tokens_sum"));
    CHECK(value("nvllm_prompt_tokens_total") == value("nvllm_request_prompt_tokens_sum"));
    CHECK(value("nvllm_step_seconds_count") == static_cast<double>(metered.num_steps()));
    CHECK(value("nvllm_preemptions_total") > 0.0);
    CHECK(value("nvllm_engine_heartbeat_seconds") == 0.0);
    const auto blocks = [&](const std::string& state) {
        return text.value("nvllm_kv_blocks", {{"model_name", "demo"}, {"state", state}});
    };
    CHECK(blocks("used") == 0.0);
    CHECK(blocks("cached") > 0.0);
    CHECK(blocks("cached") + blocks("free") == metered.engine().memory_plan().num_blocks[0]);
    CHECK(value("nvllm_nonfinite_logits_total") == 0.0);
}

TEST_CASE("the timeline of the same shows who gave way and came back") {
    MeteredEngine metered;
    const std::string prompt(200, 'a');
    for (int i = 0; i < 12; ++i) metered.submit(std::to_string(i) + prompt, 100);
    metered.wait_idle();
    const nlohmann::json trace = parse_json(metered.trace(), "trace");
    int64_t num_steps = 0;
    std::set<std::string> names;
    for (const nlohmann::json& event : trace.at("traceEvents")) {
        num_steps += event.at("ph") == "X";
        names.insert(event.at("name").get<std::string>());
    }
    CHECK(num_steps == metered.num_steps());
    for (const char* name : {"queued", "prefill", "decode", "preempted", "resumed", "request 12"}) {
        CHECK_MESSAGE(names.count(name) == 1, name);
    }
}

TEST_CASE("the heartbeat grows while the engine thread hangs, and not while it rests") {
    MeteredEngine metered;
    metered.submit("a", 2);
    metered.wait_idle();
    CHECK(metered.engine().stats().seconds_since_heartbeat == 0.0);
    std::atomic<bool> hangs{true};
    RequestInput input;
    input.prompt = "b";
    input.sampling.max_tokens = 4;
    metered.engine().submit(std::move(metered.engine().prepare(input).value_or_throw()),
                            [&](RequestOutput&&) {
                                while (hangs) std::this_thread::yield();
                            });
    double longest = 0.0;
    while (longest < 0.05) longest = metered.engine().stats().seconds_since_heartbeat;
    hangs = false;
    metered.wait_idle();
    CHECK(longest >= 0.05);
}

}  // namespace
}  // namespace nvllm::server
