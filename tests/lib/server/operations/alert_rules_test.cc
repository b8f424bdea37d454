// Alert rules: what is one, when it holds, and that each change is told once.
#include "lib/server/operations/alert_rules.h"

#include <doctest/doctest.h>

#include <map>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

MetricLookup values(std::map<std::string, double> known) {
    return [known](std::string_view metric) {
        const auto found = known.find(std::string(metric));
        return found == known.end() ? std::vector<double>{} : std::vector<double>{found->second};
    };
}

bool holds(const std::string& rule, double value) {
    const auto parsed = AlertRule::parse(rule);
    REQUIRE(parsed);
    return parsed->evaluate(value);
}

}  // namespace

TEST_CASE("each comparison, on both sides of its threshold and at it") {
    struct Row {
        const char* rule;
        bool below, at, above;
    };
    for (const Row& row : {Row{"m > 10", false, false, true}, Row{"m >= 10", false, true, true},
                           Row{"m < 10", true, false, false}, Row{"m <= 10", true, true, false},
                           Row{"m == 10", false, true, false}, Row{"m != 10", true, false, true},
                           Row{"  m>1e1 ", false, false, true}}) {
        CAPTURE(row.rule);
        CHECK(holds(row.rule, 9.0) == row.below);
        CHECK(holds(row.rule, 10.0) == row.at);
        CHECK(holds(row.rule, 11.0) == row.above);
    }
}

TEST_CASE("metrics may have labels, and numbers signs") {
    const auto rule = AlertRule::parse("vllm:kv_cache{model=\"a>b\",x=\"1\"} >= -0.5");
    REQUIRE(rule);
    CHECK(rule->metric == "vllm:kv_cache{model=\"a>b\",x=\"1\"}");
    CHECK(rule->threshold == -0.5);
}

TEST_CASE("what is no rule is refused by its text") {
    for (const char* text : {"", "m", "m >", "> 5", "m > many", "m => 5", "m = 5", "m > 5 6",
                             "1m > 5", "m n > 5", "m{a=\"b\" > 5", "m > nan", "m >> 5"}) {
        CAPTURE(text);
        CHECK(!AlertRule::parse(text));
        const std::vector<std::string> texts = {"ok > 1", text};
        CHECK_THROWS_WITH_AS(AlertRules{texts}, doctest::Contains("is not METRIC OP NUMBER"),
                             Error);
    }
}

TEST_CASE("each change is told once, and holding is remembered between") {
    const std::vector<std::string> texts = {"queue > 100", "free < 2"};
    AlertRules rules(texts);
    CHECK(rules.update(values({{"queue", 5}, {"free", 9}})).empty());
    const auto began = rules.update(values({{"queue", 101}, {"free", 9}}));
    REQUIRE(began.size() == 1);
    CHECK(began[0].holds);
    CHECK(began[0].message() == "alert: queue > 100 (it is 101)");
    CHECK(rules.holding() == std::vector<std::string>{"queue > 100"});
    CHECK(rules.update(values({{"queue", 150}, {"free", 9}})).empty());
    const auto both = rules.update(values({{"queue", 100}, {"free", 1}}));
    REQUIRE(both.size() == 2);
    CHECK(both[0].message() == "alert over: queue > 100 (it is 100)");
    CHECK(both[1].message() == "alert: free < 2 (it is 1)");
    const auto gone = rules.update(values({{"queue", 3}}));
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].message() == "alert over: free < 2 (there is no value)");
}

TEST_CASE("a rule holds when it does so for one of a metric's values") {
    const std::vector<std::string> texts = {"heat > 85"};
    AlertRules rules(texts);
    const auto of = [](std::vector<double> values) {
        return [values](std::string_view) { return values; };
    };
    CHECK(rules.update(of({50, 60})).empty());
    const auto began = rules.update(of({50, 90, 95}));
    REQUIRE(began.size() == 1);
    CHECK(began[0].message() == "alert: heat > 85 (it is 95)");
    CHECK(rules.update(of({50, 86})).empty());
    CHECK(rules.update(of({50, 60})).front().message() == "alert over: heat > 85 (it is 50)");
}

TEST_CASE("a scrape is asked for one sample, or for all of a name") {
    const MetricLookup lookup = lookup_in_scrape(
        "# TYPE calls counter\ncalls{model=\"a\"} 2\ncalls{model=\"b\"} 3\n"
        "calls_total 9\nload 0.5\n");
    CHECK(lookup("calls") == std::vector<double>{2, 3});
    CHECK(lookup("calls{model=\"b\"}") == std::vector<double>{3});
    CHECK(lookup("load") == std::vector<double>{0.5});
    CHECK(lookup("lo").empty());
}

TEST_CASE("the value that is told is the worst, and values are never added up") {
    const std::vector<std::string> texts = {"free < 5", "heat > 85", "state != 0"};
    AlertRules rules(texts);
    const auto changes = rules.update([](std::string_view metric) {
        if (metric == "free") return std::vector<double>{4, 1, 3, 9};
        return metric == "heat" ? std::vector<double>{60, 60} : std::vector<double>{0, 0};
    });
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].message() == "alert: free < 5 (it is 1)");
}

TEST_CASE("a temperature to warn of is a rule more") {
    AlertOptions options;
    CHECK(make_alert_rules(options).empty());
    options.temperature = 85;
    AlertRules rules = make_alert_rules(options);
    CHECK(rules.update(values({{"nvllm_device_temperature_celsius", 85}})).empty());
    const auto hot = rules.update(values({{"nvllm_device_temperature_celsius", 86.5}}));
    REQUIRE(hot.size() == 1);
    CHECK(hot[0].message() == "alert: nvllm_device_temperature_celsius > 85 (it is 86.5)");
}
