// What is counted, and how it is written.
#include "lib/base/metrics.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/error.h"
#include "tests/lib/base/prometheus_text.h"

namespace nvllm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("the text, byte for byte") {
    MetricsRegistry registry;
    registry.counter("requests_total", "How many\ncame, \\ and \"went\".", {"method", "path"})
        .with({"GET", "a\\b\"c\nd\xff"})
        .add(3);
    registry.gauge("lead_seconds", "Time.").with({}).set(-0.25);
    auto& sizes = registry.histogram("size", "Sizes.", {0.005, 1.0, 250.0});
    sizes.with({}).observe(0.005);
    sizes.with({}).observe(0.5);
    sizes.with({}).observe(1000.0);
    CHECK(registry.text() ==
          "# HELP requests_total How many\\ncame, \\\\ and \"went\".\n"
          "# TYPE requests_total counter\n"
          "requests_total{method=\"GET\",path=\"a\\\\b\\\"c\\nd\xEF\xBF\xBD\"} 3\n"
          "# HELP lead_seconds Time.\n"
          "# TYPE lead_seconds gauge\n"
          "lead_seconds -0.25\n"
          "# HELP size Sizes.\n"
          "# TYPE size histogram\n"
          "size_bucket{le=\"0.005\"} 1\n"
          "size_bucket{le=\"1\"} 2\n"
          "size_bucket{le=\"250\"} 2\n"
          "size_bucket{le=\"+Inf\"} 3\n"
          "size_sum 1000.505\n"
          "size_count 3\n");
}

TEST_CASE("numbers of every size") {
    MetricsRegistry registry;
    auto& gauge = registry.gauge("g", "A gauge.", {"which"});
    gauge.with({"whole"}).set(1e15);
    gauge.with({"large"}).set(1e300);
    gauge.with({"small"}).set(1e-9);
    gauge.with({"minus"}).set(-3.0);
    gauge.with({"infinite"}).set(kInfinity);
    auto& counter = registry.counter("c_total", "A counter.");
    counter.with({}).add(std::numeric_limits<uint64_t>::max());
    const std::string text = registry.text();
    CHECK(text.find("g{which=\"whole\"} 1000000000000000\n") != std::string::npos);
    CHECK(text.find("g{which=\"large\"} 1e+300\n") != std::string::npos);
    CHECK(text.find("g{which=\"small\"} 1e-09\n") != std::string::npos);
    CHECK(text.find("g{which=\"minus\"} -3\n") != std::string::npos);
    CHECK(text.find("g{which=\"infinite\"} +Inf\n") != std::string::npos);
    CHECK(text.find("c_total 18446744073709551615\n") != std::string::npos);
}

TEST_CASE("what is not a number is nowhere") {
    MetricsRegistry registry;
    auto& gauge = registry.gauge("g", "A gauge.");
    gauge.with({}).set(kNaN);
    registry.function(MetricType::gauge, "f", "A function.", [] { return kNaN; });
    auto& histogram = registry.histogram("h", "A histogram.", {1.0}).with({});
    histogram.observe(kNaN);
    histogram.observe(kInfinity);
    histogram.observe(-kInfinity);
    const std::string text = registry.text();
    CHECK(text.find("nan") == std::string::npos);
    const test::PrometheusText read(text);
    CHECK_FALSE(read.has("g"));
    CHECK_FALSE(read.has("f"));
    CHECK(read.value("h_count") == 0.0);
    CHECK(read.value("h_sum") == 0.0);
    gauge.with({}).set(2.0);
    CHECK(test::PrometheusText(registry.text()).value("g") == 2.0);
    gauge.with({}).forget();
    CHECK_FALSE(test::PrometheusText(registry.text()).has("g"));
}

TEST_CASE("values are asked for when the text is made") {
    MetricsRegistry registry;
    double seconds = 1.5;
    int refreshed = 0;
    registry.function(MetricType::counter, "cpu_seconds_total", "Time.", [&] { return seconds; });
    auto& followed = registry.counter("steps_total", "Steps.").with({});
    registry.on_scrape([&] { followed.raise_to(static_cast<uint64_t>(10 * ++refreshed)); });
    CHECK(test::PrometheusText(registry.text()).value("cpu_seconds_total") == 1.5);
    seconds = 2.0;
    const test::PrometheusText read(registry.text());
    CHECK(read.value("cpu_seconds_total") == 2.0);
    CHECK(read.families().at("cpu_seconds_total").type == "counter");
    CHECK(read.value("steps_total") == 20.0);
    followed.raise_to(5);
    CHECK(followed.value() == 20);
}

TEST_CASE("a family under another name, with coarser buckets") {
    MetricsRegistry registry;
    auto& family = registry.histogram("fine_seconds", "Fine.", {0.1, 0.2, 0.5, 1.0}, {"model"});
    registry.view(family, {"vllm:coarse_seconds", "Coarse.", "engine=\"0\"", {0.2, 1.0}});
    auto& counter = registry.counter("ours_total", "Ours.");
    registry.view(counter, {"theirs_total", "Theirs.", "engine=\"0\""});
    counter.with({}).add(7);
    for (const double value : {0.05, 0.15, 0.3, 0.9, 5.0}) family.with({"m"}).observe(value);
    const test::PrometheusText read(registry.text());
    CHECK(read.value("theirs_total", {{"engine", "0"}}) == 7.0);
    const auto coarse = [&](const std::string& edge) {
        return read.value("vllm:coarse_seconds_bucket",
                          {{"engine", "0"}, {"model", "m"}, {"le", edge}});
    };
    CHECK(coarse("0.2") == 2.0);
    CHECK(coarse("1") == 4.0);
    CHECK(coarse("+Inf") == 5.0);
    CHECK(std::isnan(coarse("0.1")));
    CHECK(read.value("fine_seconds_bucket", {{"model", "m"}, {"le", "0.5"}}) == 3.0);
    CHECK(read.value("vllm:coarse_seconds_sum", {{"engine", "0"}, {"model", "m"}}) ==
          read.value("fine_seconds_sum", {{"model", "m"}}));
}

TEST_CASE("label values are bounded, whoever chooses them") {
    MetricsRegistry registry;
    auto& family = registry.counter("c_total", "A counter.", {"path", "status"}, 8);
    for (int i = 0; i < 10'000; ++i) family.with({"/" + std::to_string(i), "200"}).add();
    const test::PrometheusText read(registry.text());
    CHECK(read.num_samples() == 9);
    CHECK(read.value("c_total", {{"path", "/7"}, {"status", "200"}}) == 1.0);
    CHECK(read.value("c_total", {{"path", "other"}, {"status", "other"}}) == 9992.0);
    CHECK(&family.with({"/3", "200"}) == &family.with({"/3", "200"}));
    CHECK(&family.with({"/3", "200"}) != &family.with({"/4", "200"}));
}

TEST_CASE("values that look alike are not one") {
    MetricsRegistry registry;
    auto& family = registry.counter("c_total", "A counter.", {"a", "b"});
    family.with({"x\",b=\"y", "z"}).add(1);
    family.with({"x", "y\",b=\"z"}).add(2);
    const test::PrometheusText read(registry.text());
    CHECK(read.value("c_total", {{"a", "x\",b=\"y"}, {"b", "z"}}) == 1.0);
    CHECK(read.value("c_total", {{"a", "x"}, {"b", "y\",b=\"z"}}) == 2.0);
}

TEST_CASE("our own mistakes are found at once") {
    MetricsRegistry registry;
    auto& family = registry.counter("c_total", "A counter.", {"a"});
    auto& histogram = registry.histogram("h", "A histogram.", {1.0, 2.0});
    CHECK_THROWS_AS(registry.counter("c_total", "Again."), Error);
    CHECK_THROWS_AS(registry.gauge("1st", "A digit."), Error);
    CHECK_THROWS_AS(registry.gauge("with space", "A space."), Error);
    CHECK_THROWS_AS(registry.gauge("g", "A colon in a label.", {"a:b"}), Error);
    CHECK_THROWS_AS(registry.gauge("g2", "Reserved.", {"le"}), Error);
    CHECK_THROWS_AS(registry.histogram("h2", "Falls.", {2.0, 1.0}), Error);
    CHECK_THROWS_AS(registry.histogram("h3", "Nothing.", {}), Error);
    CHECK_THROWS_AS(registry.view(histogram, {"h4", "Other edges.", "", {1.5}}), Error);
    CHECK_THROWS_AS(family.with({}), Error);
    CHECK_THROWS_AS(family.with({"one", "two"}), Error);
}

TEST_CASE("edges for counts") {
    CHECK(one_two_five_edges(100) == std::vector<double>{1, 2, 5, 10, 20, 50, 100});
    CHECK(one_two_five_edges(4096).back() == 2000.0);
    CHECK(one_two_five_edges(1) == std::vector<double>{1});
    CHECK(one_two_five_edges(1'000'000'000'000'000).size() == 46);
}

TEST_CASE("many threads count while others read") {
    MetricsRegistry registry;
    auto& counters = registry.counter("c_total", "A counter.", {"thread"}, 4);
    auto& histogram = registry.histogram("h", "A histogram.", {0.5, 1.5}).with({});
    auto& gauge = registry.gauge("g", "A gauge.").with({});
    constexpr int kThreads = 8;
    constexpr int kRounds = 20'000;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            const std::string name = std::to_string(thread);
            for (int i = 0; i < kRounds; ++i) {
                counters.with({name}).add();
                histogram.observe(i % 3);
                gauge.add(i % 2 == 0 ? 1.0 : -1.0);
            }
        });
    }
    for (int i = 0; i < 50; ++i) CHECK_NOTHROW(test::PrometheusText(registry.text()));
    for (std::thread& thread : threads) thread.join();
    const test::PrometheusText read(registry.text());
    CHECK(read.sum("c_total") == kThreads * kRounds);
    CHECK(read.value("h_count") == kThreads * kRounds);
    CHECK(read.value("h_sum") == kThreads * 19'999.0);
    CHECK(read.value("g") == 0.0);
}

}  // namespace
}  // namespace nvllm
