// What the trace says of requests and steps, and that its bars nest.
#include "lib/server/operations/request_timeline.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "lib/base/json.h"
#include "lib/server/operations/server_metrics.h"
#include "tests/lib/server/metered_requests.h"

namespace nvllm::server {
namespace {

using nlohmann::json;

struct Bar {
    std::string name;
    double begin = 0.0;
    double end = 0.0;
    int depth = 0;
    bool operator==(const Bar&) const = default;
};

struct Trace {
    std::map<uint64_t, std::vector<Bar>> requests;  // in the order of their begins
    std::map<uint64_t, std::string> outcomes;
    std::vector<json> steps;
    std::vector<json> counters;
};

// Reads as a viewer would, and fails where it could not show what was meant: bars that are not
// closed, end before they begin, or stick out of the bar around them.
Trace read_trace(const std::string& text) {
    Trace trace;
    std::map<uint64_t, std::vector<size_t>> open;  // indices into the request's bars
    const json document = parse_json(text, "trace");
    for (const json& event : document.at("traceEvents")) {
        const std::string phase = event.at("ph");
        CHECK(event.at("pid") == 1);
        if (phase == "M") continue;
        const double at = event.at("ts");
        if (phase == "X") {
            CHECK(event.at("dur") >= 0.0);
            if (!trace.steps.empty()) {
                const json& before = trace.steps.back();
                CHECK(at >= before.at("ts").get<double>() + before.at("dur").get<double>() - 0.01);
            }
            trace.steps.push_back(event);
        } else if (phase == "C") {
            trace.counters.push_back(event);
        } else {
            const uint64_t id = event.at("id");
            std::vector<Bar>& bars = trace.requests[id];
            std::vector<size_t>& stack = open[id];
            if (phase == "b") {
                if (!stack.empty()) CHECK(at >= bars[stack.back()].begin);
                stack.push_back(bars.size());
                bars.push_back({event.at("name"), at, 0.0, static_cast<int>(stack.size())});
            } else {
                REQUIRE(phase == "e");
                REQUIRE(!stack.empty());
                Bar& bar = bars[stack.back()];
                CHECK(bar.name == event.at("name"));
                CHECK(at >= bar.begin);
                for (const Bar& inner : bars) CHECK((inner.end == 0.0 || inner.end <= at));
                bar.end = at;
                stack.pop_back();
                if (stack.empty()) trace.outcomes[id] = event.at("args").at("outcome");
            }
        }
    }
    for (const auto& [id, stack] : open) CHECK(stack.empty());
    return trace;
}

StepRecord step_at(double began_s, double length_s, std::vector<RequestId> admitted = {},
                   std::vector<RequestId> preempted = {}) {
    static std::atomic<uint64_t> number{0};
    StepRecord step;
    step.plan_number = ++number;
    step.began_s = began_s;
    step.step_ms = 1000.0 * length_s;
    step.num_sequences = 2;
    step.num_tokens = 5;
    step.num_running = 2;
    step.num_waiting = 1;
    step.admitted = std::move(admitted);
    step.preempted = std::move(preempted);
    return step;
}

TEST_CASE("a request's phases follow each other inside its bar") {
    ServerMetrics metrics;
    RequestTimeline timeline("model \"q\"");
    test::run_request(metrics.model("m"), 7, 5, &timeline);
    timeline.observe_step(step_at(7.5, 0.25, {7}));
    timeline.observe_step(step_at(7.75, 0.5));
    const Trace trace = read_trace(timeline.chrome_trace());
    const std::vector<Bar> expected = {{"request 7", 7e6, 8.5e6, 1},
                                       {"queued", 7e6, 7.5e6, 2},
                                       {"prefill", 7.5e6, 8.1e6, 2},
                                       {"decode", 8.1e6, 8.5e6, 2}};
    CHECK(trace.requests.at(7) == expected);
    CHECK(trace.outcomes.at(7) == "stop");
    REQUIRE(trace.steps.size() == 2);
    CHECK(trace.steps[0].at("args").at("tokens") == 5);
    CHECK(trace.steps[0].at("dur") == 250000.0);
    REQUIRE(trace.counters.size() == 2);
    CHECK(trace.counters[0].at("args").at("waiting") == 1);
}

TEST_CASE("a request that gives way and comes back, told of in another order") {
    RequestTimeline timeline("m");
    RequestTimes times;
    times.arrival_s = 1.0;
    times.first_scheduled_s = 2.001;
    times.first_token_s = 3.0;
    timeline.first_token(4, times);  // the step that made it is told of afterwards
    timeline.observe_step(step_at(2.0, 1.0, {4}));
    timeline.observe_step(step_at(4.0, 1.0, {}, {4}));
    timeline.observe_step(step_at(6.0, 1.0, {4}));
    timeline.observe_step(step_at(8.0, 1.0, {4}, {4}));  // both, within one plan
    times.finished_s = 9.0;
    timeline.finished(4, times, FinishReason::length);
    const Trace trace = read_trace(timeline.chrome_trace());
    std::vector<std::string> names;
    for (const Bar& bar : trace.requests.at(4)) names.push_back(bar.name);
    CHECK(names == std::vector<std::string>{"request 4", "queued", "prefill", "decode", "preempted",
                                            "resumed", "preempted", "resumed"});
    CHECK(trace.outcomes.at(4) == "length");
    CHECK(trace.requests.at(4).back() == Bar{"resumed", 8e6, 9e6, 2});
}

TEST_CASE("requests that are under way, that never ran, and whose beginning is forgotten") {
    RequestTimeline timeline("m", {.request_events = 6, .steps = 2});
    timeline.observe_step(step_at(1.0, 1.0, {1}));
    RequestTimes refused;
    refused.arrival_s = 1.5;
    refused.finished_s = 1.75;
    timeline.finished(2, refused, FinishReason::error);
    Trace trace = read_trace(timeline.chrome_trace());
    CHECK(trace.outcomes.at(1) == "under way");
    CHECK(trace.requests.at(1) ==
          std::vector<Bar>{{"request 1", 1e6, 2e6, 1}, {"prefill", 1e6, 2e6, 2}});
    CHECK(trace.requests.at(2) ==
          std::vector<Bar>{{"request 2", 1.5e6, 1.75e6, 1}, {"queued", 1.5e6, 1.75e6, 2}});
    CHECK(trace.outcomes.at(2) == "error");

    RequestTimes times;
    times.arrival_s = 2.0;
    times.first_scheduled_s = 2.5;
    times.first_token_s = 3.0;
    times.finished_s = 4.0;
    for (RequestId id = 10; id < 12; ++id) {
        timeline.first_token(id, times);
        timeline.finished(id, times, FinishReason::stop);
    }
    for (int i = 0; i < 5; ++i) timeline.observe_step(step_at(10.0 + i, 0.5));
    trace = read_trace(timeline.chrome_trace());
    CHECK(trace.steps.size() == 2);
    CHECK(trace.steps[0].at("ts") == 13e6);
    CHECK(trace.requests.count(1) == 0);
    // Of request 10 its last two events are left.
    CHECK(trace.requests.at(10) ==
          std::vector<Bar>{{"request 10", 3e6, 4e6, 1}, {"decode", 3e6, 4e6, 2}});
    CHECK(trace.requests.at(11).size() == 4);
}

TEST_CASE("an empty timeline is a document too") {
    CHECK(read_trace(RequestTimeline("m").chrome_trace()).requests.empty());
    RequestTimeline none("m", {.request_events = 0, .steps = 0});
    none.observe_step(step_at(1.0, 1.0, {1}));
    CHECK(read_trace(none.chrome_trace()).steps.empty());
}

TEST_CASE("any order of events from several threads gives bars that nest") {
    RequestTimeline timeline("m", {.request_events = 500, .steps = 50});
    std::vector<std::thread> threads;
    for (uint32_t seed = 0; seed < 3; ++seed) {
        threads.emplace_back([&, seed] {
            std::mt19937 random(seed);
            const auto time = [&] { return static_cast<double>(random() % 1000) / 10.0; };
            for (int i = 0; i < 2000; ++i) {
                RequestTimes times;
                times.arrival_s = time();
                if (random() % 2 == 0) times.first_scheduled_s = time();
                if (random() % 2 == 0) times.first_token_s = time();
                times.finished_s = time();
                const RequestId id = random() % 40;
                StepRecord step = step_at(0.0, 0.0, {id}, {random() % 40});
                step.began_s = 0.0;
                if (random() % 3 == 0) timeline.observe_step(step);
                if (random() % 3 == 0) timeline.first_token(id, times);
                if (random() % 9 == 0) timeline.finished(id, times, FinishReason::stop);
            }
        });
    }
    for (int i = 0; i < 20; ++i) read_trace(timeline.chrome_trace());
    for (std::thread& thread : threads) thread.join();
    CHECK(read_trace(timeline.chrome_trace()).requests.size() > 20);
}

}  // namespace
}  // namespace nvllm::server
