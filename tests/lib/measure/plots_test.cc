// Charts of made-up results: which roofs and series there are.
#include "lib/measure/plots.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/error_of.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

Json op(const std::string& name, const std::string& shape, double intensity, double rate) {
    return {{"op", name}, {"shape", shape}, {"flop_per_byte", intensity}, {"gflop_s", rate}};
}

Chart roofline(const Json& roof, const std::vector<Json>& ops) {
    return roofline_chart(
        {"made up", std::make_shared<const Json>(Json{{"roof", roof}, {"ops", ops}})});
}

// Of its series without markers.
std::vector<double> peaks_of(const Chart& chart) {
    std::vector<double> peaks;
    for (const ChartSeries& series : chart.series) {
        if (!series.has_markers) peaks.push_back(series.points.back().second);
    }
    return peaks;
}

const Json kRoof = {{"read_gb_s", 20.0},
                    {"float32_gflop_s", 200.0},
                    {"bfloat16_gflop_s", 1600.0},
                    {"product_gflop_s", 1600.0},
                    {"int8_gop_s", 3000.0}};

TEST_CASE("a roof for each type of product that the ops have") {
    const Json bf16 = op("matmul prefill", "8 x 8 x 8 bfloat16", 50.0, 1500.0);
    const Json f32 = op("matmul prefill", "8 x 8 x 8 float32", 25.0, 190.0);
    const Json int8 = op("W8A8 prefill", "8 x 8 x 8 W8A8", 90.0, 2900.0);
    CHECK(peaks_of(roofline(kRoof, {bf16})) == std::vector<double>{1600.0});
    CHECK(peaks_of(roofline(kRoof, {f32, int8, bf16})) ==
          std::vector<double>{3000.0, 1600.0, 200.0});
    Json said = op("attention decode", "8 x 8", 2.0, 30.0);
    CHECK(peaks_of(roofline(kRoof, {said})) == std::vector<double>{1600.0});  // products' type
    said["arithmetic"] = "float32";
    CHECK(peaks_of(roofline(kRoof, {said})) == std::vector<double>{200.0});
}

TEST_CASE("a device has the peak of its products alone") {
    const Json roof = {{"read_gb_s", 3000.0},
                       {"float32_gflop_s", 0.0},
                       {"bfloat16_gflop_s", 0.0},
                       {"product_gflop_s", 700000.0}};
    const Chart chart = roofline(
        roof, {op("matmul", "8 x 8 x 8 bfloat16", 50.0, 1500.0), op("W8A8", "8 W8A8", 50.0, 1.0)});
    CHECK(peaks_of(chart) == std::vector<double>{700000.0});
    CHECK(chart.series[0].name.find("bfloat16, int8") != std::string::npos);
    test::error_of(ErrorKind::bad_data, [] {
        roofline({{"read_gb_s", 3000.0}}, {op("matmul", "8", 50.0, 1500.0)});
    });
}

TEST_CASE("a series for each kind of op, no two drawn alike") {
    std::vector<Json> ops;
    for (int kind = 0; kind < 20; ++kind) {
        for (const char* step : {"decode", "batch", "prefill"}) {
            ops.push_back(op(fmt::format("kind{} {}", kind, step), "8 bfloat16", 1.0 + kind, 9.0));
        }
    }
    for (const char* name : {"rope", "rms_norm", "gated_activation silu"}) {
        ops.push_back(op(name, "8 x 8", 0.5, 9.0));
    }
    const Chart chart = roofline(kRoof, ops);
    CHECK(chart.series.size() == 1 + 20 + 1);
    CHECK(chart.series[1].points.size() == 3);
    CHECK(chart.series[1].labels[2].find("kind0 prefill") == 0);
    // In the legend each mark stands at another height: its shape and colour are what is left.
    const std::string svg = draw_svg(chart);
    std::set<std::string> marks;
    size_t in_legend = 0;
    for (size_t at = svg.find("<path d=\"M86.00 "); at != std::string::npos;
         at = svg.find("<path d=\"M86.00 ", at + 1)) {
        const size_t shape = svg.find('m', at);
        marks.insert(svg.substr(shape, svg.find("/>", at) - shape));
        ++in_legend;
    }
    CHECK(in_legend == 21);
    CHECK(marks.size() == 21);
}

}  // namespace
}  // namespace nvllm
