// Serving metrics from known times, events cut anywhere, arrivals, names.
#include "lib/measure/serving/serving_metrics.h"

#include <doctest/doctest.h>

#include <cmath>

#include "kernels/error.h"
#include "lib/base/statistics.h"
#include "lib/measure/serving/arrivals.h"
#include "lib/measure/serving/http_load.h"
#include "lib/measure/serving/serving_report.h"
#include "lib/measure/serving/sse_reader.h"

using namespace nvllm;

namespace {

RequestRecord record(double sent_s, std::vector<double> times_s, int64_t tokens) {
    RequestRecord made;
    made.num_prompt_tokens = 10;
    made.num_output_tokens = tokens;
    made.sent_s = sent_s;
    made.token_times_s = std::move(times_s);
    made.finished_s = made.token_times_s.back();
    return made;
}

}  // namespace

TEST_CASE("peaks of a run of less than a second") {
    std::vector<RequestRecord> requests;
    for (int i = 0; i < 8; ++i) {  // two at a time, one after the other
        const double begin_s = (i / 2) * 0.01;
        requests.push_back(record(begin_s, {begin_s + 0.005, begin_s + 0.01}, 6));
    }
    const ServingMetrics metrics = serving_metrics(requests, 0.04, {});
    CHECK(metrics.output_throughput == doctest::Approx(1200.0));
    CHECK(metrics.max_output_tokens_per_s == doctest::Approx(1200.0));
    CHECK(metrics.max_concurrent_requests == 2);
}

TEST_CASE("a peak is never below the mean") {
    // All tokens at the two ends of a run of a little more than a second.
    const std::vector<RequestRecord> requests = {record(0.0, {0.001}, 50), record(0.5, {1.2}, 50)};
    const ServingMetrics metrics = serving_metrics(requests, 1.2, {});
    CHECK(metrics.max_output_tokens_per_s >= metrics.output_throughput * (1.0 - 1e-12));
    const std::vector<RequestRecord> one = {record(0.0, {4.0, 4.1, 4.2}, 300)};
    const ServingMetrics burst = serving_metrics(one, 10.0, {});
    CHECK(burst.max_output_tokens_per_s == doctest::Approx(300.0));
    CHECK(serving_metrics({}, 0.0, {}).max_output_tokens_per_s == 0.0);
}

TEST_CASE("metrics are defined as in vllm bench serve") {
    RequestRecord failed = record(0.0, {0.1}, 1);
    failed.error = "closed";
    const std::vector<RequestRecord> requests = {record(0.0, {0.2, 0.3, 0.5}, 3),
                                                 record(1.0, {1.1}, 1), failed};
    const ServingMetrics metrics = serving_metrics(requests, 2.0, parse_goodput({"ttft:150"}));
    CHECK(metrics.completed == 2);
    CHECK(metrics.failed == 1);
    CHECK(metrics.total_input_tokens == 20);
    CHECK(metrics.total_output_tokens == 4);
    CHECK(metrics.request_throughput == 1.0);
    CHECK(metrics.output_throughput == 2.0);
    CHECK(metrics.total_token_throughput == 12.0);
    CHECK(*metrics.request_goodput == 0.5);
    CHECK(mean(metrics.ttfts_ms) == doctest::Approx(150.0));
    REQUIRE(metrics.tpots_ms.size() == 1);  // one token has no time between tokens
    CHECK(metrics.tpots_ms[0] == doctest::Approx(150.0));
    REQUIRE(metrics.itls_ms.size() == 2);
    CHECK(metrics.itls_ms[0] == doctest::Approx(100.0));
    CHECK(metrics.itls_ms[1] == doctest::Approx(200.0));
    CHECK(metrics.e2els_ms[0] == doctest::Approx(500.0));
    CHECK(metrics.max_output_tokens_per_s == 4);
    CHECK(metrics.max_concurrent_requests == 2);
}

TEST_CASE("limits of goodput") {
    const GoodputLimits limits = parse_goodput({"ttft:1", "e2el:2.5"});
    CHECK(*limits.e2el_ms == 2.5);
    CHECK(!limits.tpot_ms);
    for (const char* bad : {"ttft", "ttft:", "itl:3", "e2el:-1", "e2el:x"}) {
        CHECK_THROWS_AS(static_cast<void>(parse_goodput({bad})), Error);
    }
}

TEST_CASE("events are the same however the stream is cut") {
    const std::string stream =
        "data: one\n\ndata:two\r\n\r\n: comment\nid: 7\ndata: a\ndata: b\n\ndata: three\r\r"
        "event: x\n\ndata: unfinished\n";
    const std::vector<std::string> expected = {"one", "two", "a\nb", "three"};
    for (size_t piece = 1; piece <= stream.size(); ++piece) {
        SseReader reader;
        std::vector<std::string> events;
        for (size_t at = 0; at < stream.size(); at += piece) {
            reader.feed(std::string_view(stream).substr(at, piece),
                        [&](std::string_view data) { events.emplace_back(data); });
        }
        CHECK(events == expected);
    }
}

TEST_CASE("arrivals keep the rate, and their spread follows the burstiness") {
    for (const double burstiness : {0.25, 1.0, 16.0}) {
        std::vector<WorkItem> items(4000);
        set_arrivals(
            items,
            {.request_rate = 20.0, .burstiness = burstiness, .ramp_up_strategy = {}, .seed = 1});
        CHECK(items.back().send_at_s == doctest::Approx(200.0));
        std::vector<double> gaps;
        for (size_t i = 1; i < items.size(); ++i) {
            gaps.push_back(items[i].send_at_s - items[i - 1].send_at_s);
        }
        CHECK(population_deviation(gaps) / mean(gaps) ==
              doctest::Approx(1.0 / std::sqrt(burstiness)).epsilon(0.1));
    }
    std::vector<WorkItem> at_once(3);
    set_arrivals(at_once, {});
    CHECK(at_once.back().send_at_s == 0.0);
}

TEST_CASE("a ramp ends faster than it begins") {
    for (const char* strategy : {"linear", "exponential"}) {
        std::vector<WorkItem> items(2000);
        ArrivalOptions options;
        options.ramp_up_strategy = strategy;
        options.ramp_up_start_rps = 1.0;
        options.ramp_up_end_rps = 100.0;
        set_arrivals(items, options);
        CHECK(items[200].send_at_s > items[1999].send_at_s - items[1799].send_at_s);
    }
}

TEST_CASE("names of result files") {
    ResultName name;
    name.label = "openai";
    name.request_rate = 2.0;
    name.ramp_up_strategy = std::nullopt;
    name.max_concurrency = 8;
    name.model = "org/model";
    name.time_stamp = "20260101-000000";
    CHECK(result_file_name(name) == "openai-2.0qps-concurrency8-model-20260101-000000.json");
    name.request_rate = INFINITY;
    name.max_concurrency.reset();
    CHECK(result_file_name(name) == "openai-infqps-model-20260101-000000.json");
}

TEST_CASE("the console block has vLLM's widths") {
    ServingMetrics metrics;
    metrics.completed = 3;
    ReportOptions report;
    report.request_rate = INFINITY;
    const std::string text = serving_table(metrics, report);
    CHECK(
        text.starts_with("============ Serving Benchmark Result ============\n"
                         "Successful requests:                     3         \n"));
    CHECK(text.find("---------------Time to First Token----------------\n"
                    "Mean TTFT (ms):                          0.00      \n") != std::string::npos);
    CHECK(text.find("-----Time per Output Token (excl. 1st token)------\n") != std::string::npos);
    CHECK(text.find("P99 ITL (ms):") != std::string::npos);
    CHECK(text.find("E2EL") == std::string::npos);
}
