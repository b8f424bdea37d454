// Ticks of axes, and charts of hostile values.
#include "lib/plot/chart.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;

TEST_CASE("ticks are round and cover the range") {
    CHECK(axis_ticks(0.0, 100.0, 5, false) == std::vector<double>{0, 20, 40, 60, 80, 100});
    CHECK(axis_ticks(1.0, 1000.0, 5, true) == std::vector<double>{1, 10, 100, 1000});
    CHECK(axis_ticks(3.0, 3.5, 5, false).front() <= 3.0);
    CHECK_THROWS_AS(static_cast<void>(draw_svg({})), Error);
    Chart hostile;
    hostile.series.push_back({"</svg>", {{0.0, 1.0 / 0.0}, {1.0, 2.0}}});
    CHECK(draw_svg(hostile).find("&lt;/svg&gt;") != std::string::npos);
    CHECK(draw_svg(hostile).find("inf") == std::string::npos);
}

TEST_CASE("control characters of names are left out of a chart") {
    Chart chart;
    chart.title = "a\tb\x01 <c>";
    chart.series.push_back({"", {{0.0, 1.0}, {1.0, 2.0}}});
    CHECK(draw_svg(chart).find("<title>ab &lt;c&gt;</title>") != std::string::npos);
}
