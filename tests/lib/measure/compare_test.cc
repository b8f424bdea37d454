// Comparing results: what is matched, and Holm's correction.
#include "lib/measure/compare.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/error.h"
#include "lib/measure/sweep.h"

using namespace nvllm;
using Json = nlohmann::ordered_json;

TEST_CASE("figures of both sides are matched by name, tests by their label") {
    const Json a = Json::parse(R"({"x": 2, "only_a": 1, "environment": {"cores": 2},
        "tests": [{"test": "pp8", "samples": [1, 2]}, {"test": "tg8", "samples": [5, 6]}]})");
    const Json b = Json::parse(R"({"x": 3, "only_b": 1, "environment": {"cores": 4},
        "tests": [{"test": "tg8", "samples": [10, 12]}]})");
    const auto rows = compare_results(a, b, 0);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].name == "x");
    CHECK(rows[0].ratio == 1.5);
    CHECK(!rows[0].has_samples);
    CHECK(rows[1].name == "tests.tg8.samples");
    CHECK(rows[1].ratio == 2.0);
    CHECK(rows[1].has_samples);
}

TEST_CASE("what sums up samples has no row of its own, and every row a verdict") {
    const Json a = Json::parse(R"({"tests": [{"test": "pp8", "avg_ns": 1.5, "stddev_ns": 0.1,
        "p99_ns": 3, "size": 7, "samples_ns": [1, 2]}], "x": {"mean_ms": 4, "samples": {"ms": [4, 4.5]}}})");
    Json b = a;
    b["tests"][0]["avg_ns"] = 2.5;
    b["tests"][0]["p99_ns"] = 5;
    b["tests"][0]["size"] = 8;
    b["tests"][0]["samples_ns"] = {2, 3};
    b["x"]["mean_ms"] = 8;
    const auto rows = compare_results(a, b, 0);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].name == "tests.pp8.size");
    CHECK(rows[1].name == "tests.pp8.samples_ns");
    CHECK(rows[2].name == "x.samples.ms");
    const std::string table = comparison_table(rows);
    CHECK(table.find("samples") == std::string::npos);
    CHECK(table.find("tests.pp8.ns ") != std::string::npos);
    CHECK(table.find("x.ms ") != std::string::npos);
    std::istringstream lines(table);
    std::string line;
    std::getline(lines, line);  // the head
    while (std::getline(lines, line)) {
        const bool has_verdict = line.ends_with("differs") || line.ends_with("not shown") ||
                                 line.ends_with("one value each");
        CHECK_MESSAGE(has_verdict, line);
    }
}

TEST_CASE("Holm's procedure stops at the first p that is too large") {
    std::vector<Comparison> rows(4);
    const double p_values[] = {0.04, 0.01, 0.015, 0.9};
    for (size_t i = 0; i < 4; ++i) {
        rows[i].p_value = p_values[i];
        rows[i].has_samples = i != 3;
    }
    CHECK(differing_rows(rows) == std::vector<bool>{true, true, true, false});
    rows[1].p_value = 0.03;
    CHECK(differing_rows(rows) == std::vector<bool>{false, false, true, false});
}

TEST_CASE("a grid is the product of its flags") {
    const auto points =
        sweep_points({parse_swept_flag("batch=1,2"), parse_swept_flag("--input-len=8")});
    REQUIRE(points.size() == 2);
    CHECK(points[1] == SweepPoint{"--batch=2", "--input-len=8"});
    CHECK_THROWS_AS(static_cast<void>(parse_swept_flag("batch")), Error);
    CHECK_THROWS_AS(static_cast<void>(parse_swept_flag("=1")), Error);
}
