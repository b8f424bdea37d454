// What is counted of requests, however they end.
#include "lib/server/operations/request_metrics.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <random>
#include <thread>

#include "lib/server/operations/server_metrics.h"
#include "tests/lib/base/prometheus_text.h"
#include "tests/lib/server/metered_requests.h"

namespace nvllm::server {
namespace {

using nvllm::test::Labels;
using nvllm::test::PrometheusText;
using test::MadeOutputs;
using test::request_of;

const Labels kModel = {{"model_name", "m"}};

double count_of(const PrometheusText& text, const std::string& name) {
    return text.value(name, kModel);
}

double aborted(const PrometheusText& text, const std::string& cause, const std::string& state) {
    return text.value("nvllm_requests_aborted_total",
                      {{"model_name", "m"}, {"cause", cause}, {"state", state}});
}

double finished(const PrometheusText& text, const std::string& reason) {
    return text.value("nvllm_requests_finished_total", {{"model_name", "m"}, {"reason", reason}});
}

// Accepted = finished by themselves + aborted + in flight.
void check_conservation(const PrometheusText& text) {
    CHECK(count_of(text, "nvllm_requests_accepted_total") ==
          text.sum("nvllm_requests_finished_total", kModel) +
              text.sum("nvllm_requests_aborted_total", kModel) +
              count_of(text, "nvllm_requests_in_flight"));
}

TEST_CASE("one request, from its arrival to its stop") {
    ServerMetrics metrics;
    ModelMetrics& model = metrics.model("m");
    RequestMetrics recorder(model, request_of(10, 1, 16));
    MadeOutputs outputs(1, 100.0);
    outputs.scheduled(100.5);
    {
        const PrometheusText text(metrics.text());
        CHECK(count_of(text, "nvllm_requests_in_flight") == 1.0);
        CHECK(count_of(text, "nvllm_prompt_tokens_total") == 0.0);
        check_conservation(text);
    }
    recorder.observe(outputs.tokens(101.0));
    recorder.observe(outputs.tokens(101.25));
    recorder.observe(outputs.last(101.75, {FinishReason::stop}, true));
    const PrometheusText text(metrics.text());
    check_conservation(text);
    CHECK(finished(text, "stop") == 1.0);
    CHECK(count_of(text, "nvllm_requests_in_flight") == 0.0);
    CHECK(count_of(text, "nvllm_prompt_tokens_total") == 10.0);
    CHECK(count_of(text, "nvllm_generated_tokens_total") == 3.0);
    CHECK(count_of(text, "nvllm_time_to_first_token_seconds_sum") == 1.0);
    CHECK(count_of(text, "nvllm_inter_token_seconds_count") == 2.0);
    CHECK(count_of(text, "nvllm_inter_token_seconds_sum") == 0.75);
    CHECK(count_of(text, "nvllm_request_seconds_sum") == 1.75);
    CHECK(count_of(text, "nvllm_request_queue_seconds_sum") == 0.5);
    CHECK(count_of(text, "nvllm_request_prefill_seconds_sum") == 0.5);
    CHECK(count_of(text, "nvllm_request_decode_seconds_sum") == 0.75);
    CHECK(count_of(text, "nvllm_request_inference_seconds_sum") == 1.25);
    CHECK(count_of(text, "nvllm_prefill_seconds_per_token_sum") == 0.05);
    // From the first of three tokens to the last: two times between.
    CHECK(count_of(text, "nvllm_request_seconds_per_token_count") == 1.0);
    CHECK(count_of(text, "nvllm_request_seconds_per_token_sum") == 0.375);
    CHECK(count_of(text, "nvllm_request_prompt_tokens_sum") == 10.0);
    CHECK(count_of(text, "nvllm_request_generated_tokens_sum") == 3.0);
    CHECK(count_of(text, "nvllm_request_max_tokens_sum") == 16.0);
    CHECK(count_of(text, "nvllm_request_continuations_sum") == 1.0);
    const Labels vllm = {{"model_name", "m"}, {"engine", "0"}};
    CHECK(text.value("vllm:inter_token_latency_seconds_sum", vllm) == 0.75);
    CHECK(text.value("vllm:time_per_output_token_seconds_sum", vllm) == 0.75);
    CHECK(text.value("vllm:request_time_per_output_token_seconds_sum", vllm) == 0.375);
    CHECK(text.value("vllm:request_time_per_output_token_seconds_count", vllm) == 1.0);
    CHECK(text.value("vllm:prompt_tokens_by_source_total",
                     {{"model_name", "m"}, {"engine", "0"}, {"source", "local_compute"}}) == 10.0);
    CHECK(text.value("vllm:e2e_request_latency_seconds_sum", vllm) == 1.75);
    CHECK(text.value("vllm:request_success_total",
                     {{"model_name", "m"}, {"engine", "0"}, {"finished_reason", "stop"}}) == 1.0);
}

TEST_CASE("continuations have gaps of their own, and the gravest reason is the request's") {
    ServerMetrics metrics;
    RequestMetrics recorder(metrics.model("m"), request_of(5, 3));
    MadeOutputs outputs(1, 0.0);
    outputs.scheduled(0.5);
    recorder.observe(outputs.tokens(1.0, 1, 0));
    recorder.observe(outputs.tokens(2.0, 1, 1));
    recorder.observe(outputs.tokens(4.0, 2, 0));  // two tokens at once: one gap
    recorder.observe(
        outputs.last(5.0, {FinishReason::length, FinishReason::error, FinishReason::stop}, false));
    const PrometheusText text(metrics.text());
    CHECK(finished(text, "error") == 1.0);
    CHECK(text.sum("nvllm_requests_finished_total") == 1.0);
    CHECK(count_of(text, "nvllm_inter_token_seconds_count") == 1.0);
    CHECK(count_of(text, "nvllm_inter_token_seconds_sum") == 3.0);
    CHECK(count_of(text, "nvllm_request_generated_tokens_sum") == 4.0);
    CHECK(count_of(text, "nvllm_request_longest_answer_tokens_sum") == 3.0);
    CHECK(count_of(text, "nvllm_prompt_tokens_total") == 5.0);
}

TEST_CASE("requests that are taken back, by cause and by how far they came") {
    ServerMetrics metrics;
    ModelMetrics& model = metrics.model("m");
    {
        RequestMetrics recorder(model, request_of(5));
        recorder.aborting(AbortCause::disconnect);
        recorder.aborting(AbortCause::deadline);  // the first cause counts
        recorder.observe(MadeOutputs(1, 0.0).last(1.0, {FinishReason::cancelled}));
    }
    {
        RequestMetrics recorder(model, request_of(5));
        MadeOutputs outputs(2, 0.0);
        outputs.scheduled(0.5);
        recorder.aborting(AbortCause::deadline);
        recorder.observe(outputs.last(1.0, {FinishReason::cancelled}));
    }
    {
        RequestMetrics recorder(model, request_of(5));
        MadeOutputs outputs(3, 0.0);
        outputs.scheduled(0.5);
        recorder.observe(outputs.tokens(1.0));
        recorder.observe(outputs.last(2.0, {FinishReason::cancelled}));  // nobody said why
    }
    {
        RequestMetrics recorder(model, request_of(5));
        recorder.aborting(AbortCause::write_stall);
        MadeOutputs outputs(4, 0.0);
        outputs.scheduled(0.5);
        recorder.observe(
            outputs.last(1.0, {FinishReason::length}, true));  // ended by itself before
    }
    { const RequestMetrics dropped(model, request_of(5)); }  // the engine went first
    const PrometheusText text(metrics.text());
    check_conservation(text);
    CHECK(count_of(text, "nvllm_requests_accepted_total") == 5.0);
    CHECK(count_of(text, "nvllm_requests_in_flight") == 0.0);
    CHECK(aborted(text, "disconnect", "queued") == 1.0);
    CHECK(aborted(text, "deadline", "prefill") == 1.0);
    CHECK(aborted(text, "unknown", "decode") == 1.0);
    CHECK(aborted(text, "shutdown", "queued") == 1.0);
    CHECK(aborted(text, "write_stall", "queued") == 0.0);
    CHECK(text.sum("nvllm_requests_aborted_total") == 4.0);
    CHECK(finished(text, "length") == 1.0);
    CHECK(count_of(text, "nvllm_abort_latency_seconds_count") == 2.0);
    CHECK(text.value("vllm:request_success_total",
                     {{"model_name", "m"}, {"engine", "0"}, {"finished_reason", "abort"}}) == 4.0);
}

// The law must hold in every scrape, not only when all is quiet.
TEST_CASE("conservation is exact in each scrape while threads come and go") {
    ServerMetrics metrics;
    ModelMetrics& model = metrics.model("m");
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (uint32_t seed = 0; seed < 3; ++seed) {
        threads.emplace_back([&, seed] {
            std::mt19937 random(seed);
            std::vector<std::unique_ptr<RequestMetrics>> active;
            constexpr FinishReason kReasons[] = {FinishReason::stop, FinishReason::length,
                                                 FinishReason::cancelled, FinishReason::error};
            while (!over) {
                active.push_back(std::make_unique<RequestMetrics>(model, request_of(3)));
                if (active.size() < 8) continue;
                std::swap(active[random() % active.size()], active.back());
                MadeOutputs outputs(random(), 0.0);
                if (random() % 2 == 0) outputs.scheduled(0.1);
                if (random() % 4 == 0) active.back()->aborting(AbortCause::deadline);
                if (random() % 8 > 0) {
                    active.back()->observe(
                        outputs.last(1.0, {kReasons[random() % 4]}, random() % 2 == 0));
                }
                active.pop_back();
            }
        });
    }
    double accepted = 0.0;
    for (int i = 0; i < 50; ++i) {
        const PrometheusText text(metrics.text());
        check_conservation(text);
        accepted = count_of(text, "nvllm_requests_accepted_total");
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(accepted > 0.0);
    const PrometheusText text(metrics.text());
    check_conservation(text);
    CHECK(count_of(text, "nvllm_requests_in_flight") == 0.0);
    CHECK(count_of(text, "nvllm_generated_tokens_total") ==
          count_of(text, "nvllm_request_generated_tokens_sum"));
}

}  // namespace
}  // namespace nvllm::server
