// Results to charts.
#include "lib/measure/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> number(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
}

[[noreturn]] void throw_missing(const NamedResult& result, const std::string& what) {
    throw Error(ErrorKind::bad_data, result.name + ": " + what);
}

std::vector<double> numbers(const NamedResult& result, const char* key) {
    const auto found = result.object->find(key);
    const bool fits = found != result.object->end() && found->is_array() &&
                      std::ranges::all_of(*found, [](const Json& one) { return one.is_number(); });
    if (!fits) {
        throw_missing(result, fmt::format("has no list \"{}\" (nvllm-bench serve --save-detailed "
                                          "writes it)",
                                          key));
    }
    return found->get<std::vector<double>>();
}

NamedResult named(const std::filesystem::path& file, Json&& object, const std::string& where) {
    if (!object.is_object()) throw Error(ErrorKind::bad_data, where + ": not a JSON object");
    std::string name = file.stem().string();
    const auto label = object.find("label");
    if (label != object.end() && label->is_string()) name = label->get<std::string>();
    return {name, std::make_shared<const Json>(std::move(object))};
}

// Latency in ms and throughput in tok/s.
std::optional<std::pair<double, double>> latency_point(const Json& object) {
    const auto throughput = number(object, "output_throughput");
    for (const char* key : {"mean_e2el_ms", "median_ttft_ms"}) {
        const auto latency = number(object, key);
        if (throughput && latency) return std::pair(*latency, *throughput);
    }
    const auto seconds = number(object, "avg_latency"), batch = number(object, "batch_size"),
               length = number(object, "output_len");
    if (!seconds || !batch || !length || *seconds <= 0.0) return std::nullopt;
    return std::pair(*seconds * 1000.0, *batch * *length / *seconds);
}

struct ComputeType {
    const char* name;  // "arithmetic" of an op
    const char* peak;  // in "roof"
};
constexpr std::array kComputeTypes = {ComputeType{"float32", "float32_gflop_s"},
                                      ComputeType{"bfloat16", "bfloat16_gflop_s"},
                                      ComputeType{"int8", "int8_gop_s"}};

struct RooflineOp {
    std::string name, label;
    double intensity = 0.0, rate = 0.0;
    std::string type;   // of its products
    double peak = 0.0;  // of that type
};

std::string text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// What the op says; in results that say nothing of it, the type that ends its shape.
std::string compute_type_of(const Json& op) {
    std::string type = text_of(op, "arithmetic");
    if (!type.empty()) return type;
    const std::string shape = text_of(op, "shape");
    type = shape.substr(shape.rfind(' ') + 1);
    if (type.ends_with("A8")) return "int8";  // W8A8, W4A8
    const bool is_known = std::ranges::any_of(
        kComputeTypes, [&](const ComputeType& known) { return type == known.name; });
    return is_known ? type : "products";
}

// Of its own type where that was probed, else of whatever products were.
double peak_of(const std::string& type, const Json& roof) {
    for (const ComputeType& known : kComputeTypes) {
        const double peak = number(roof, known.peak).value_or(0.0);
        if (type == known.name && peak > 0.0) return peak;
    }
    const double peak = number(roof, "product_gflop_s").value_or(0.0);
    return peak > 0.0 ? peak : number(roof, "float32_gflop_s").value_or(0.0);
}

RooflineOp roofline_op(const NamedResult& result, const Json& op, const Json& roof) {
    const auto intensity = op.is_object() ? number(op, "flop_per_byte") : std::nullopt;
    const auto rate = op.is_object() ? number(op, "gflop_s") : std::nullopt;
    const std::string name = op.is_object() ? text_of(op, "op") : "";
    if (!intensity || !rate || name.empty()) {
        throw_missing(result, "an entry of \"ops\" has no op, flop_per_byte and gflop_s");
    }
    const std::string type = compute_type_of(op);
    const double peak = peak_of(type, roof);
    if (peak <= 0.0) throw_missing(result, "\"roof\" has no peak of " + type);
    return {.name = name,
            .label = fmt::format("{} ({}): {:.1f}, of {:.0f} of {}", name, text_of(op, "shape"),
                                 *rate, peak, type),
            .intensity = *intensity,
            .rate = *rate,
            .type = type,
            .peak = peak};
}

// One for each type of product, over one slope of memory: a peak begins where that slope reaches
// it.
void add_roofs(Chart& chart, const std::vector<RooflineOp>& ops, double bandwidth) {
    constexpr double kMinIntensity = 0.05;
    std::map<double, std::string, std::greater<>> peaks;  // the highest first: it has the slope
    double left = kMinIntensity, right = 0.0;
    for (const RooflineOp& op : ops) {
        std::string& types = peaks[op.peak];
        if (types.find(op.type) == std::string::npos) {
            types += (types.empty() ? "" : ", ") + op.type;
        }
        if (op.intensity > 0.0) left = std::min(left, op.intensity);
        right = std::max({right, op.intensity * 2.0, op.peak / bandwidth * 30.0});
    }
    for (const auto& [peak, types] : peaks) {
        ChartSeries line{fmt::format("roof: {}, {:.1f} GB/s, {:.0f} GOP/s", types, bandwidth, peak),
                         {{peak / bandwidth, peak}, {right, peak}},
                         true,
                         false};
        if (chart.series.empty()) line.points.insert(line.points.begin(), {left, left * bandwidth});
        chart.series.push_back(std::move(line));
    }
}

// A series for each kind of op, which is its name's first word; what is no product is one kind.
void add_ops(Chart& chart, const std::vector<RooflineOp>& ops) {
    std::vector<ChartSeries> kinds;
    for (const RooflineOp& op : ops) {
        const bool is_elementwise = op.name.starts_with("rms_norm") ||
                                    op.name.starts_with("rope") ||
                                    op.name.starts_with("gated_activation");
        const std::string kind = is_elementwise ? "rms_norm, rope, gated_activation"
                                                : op.name.substr(0, op.name.find(' '));
        auto found = std::ranges::find(kinds, kind, &ChartSeries::name);
        if (found == kinds.end()) found = kinds.insert(found, {kind, {}, false, true});
        found->points.emplace_back(op.intensity, op.rate);
        found->labels.push_back(op.label);
    }
    for (ChartSeries& kind : kinds) chart.series.push_back(std::move(kind));
}

}  // namespace

std::vector<NamedResult> read_results(const std::filesystem::path& file) {
    const std::string text = read_file(file);
    std::vector<NamedResult> results;
    if (file.extension() != ".jsonl") {
        Json whole = parse_ordered_json(text, file.string());
        if (!whole.is_array()) return {named(file, std::move(whole), file.string())};
        for (Json& one : whole) results.push_back(named(file, std::move(one), file.string()));
        return results;
    }
    std::istringstream lines(text);
    std::string line;
    for (size_t count = 1; std::getline(lines, line); ++count) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        const std::string where = fmt::format("{}:{}", file.string(), count);
        results.push_back(named(file, parse_ordered_json(line, where), where));
    }
    return results;
}

Chart latency_chart(const std::vector<NamedResult>& results) {
    Chart chart{.title = "Throughput against latency",
                .x_label = "latency of a request (ms)",
                .y_label = "output tokens per second",
                .series = {},
                .bars = {},
                .bar_names = {}};
    std::map<std::string, std::vector<std::pair<double, double>>> lines;
    for (const NamedResult& result : results) {
        const auto point = latency_point(*result.object);
        if (!point) {
            throw_missing(result,
                          "has no output_throughput with mean_e2el_ms or median_ttft_ms, "
                          "and no avg_latency with batch_size and output_len");
        }
        lines[result.name].push_back(*point);
    }
    for (auto& [name, points] : lines) {
        chart.series.push_back({name, std::move(points)});
    }
    return chart;
}

Chart timeline_chart(const NamedResult& result) {
    const std::vector<double> starts = numbers(result, "start_times"),
                              firsts = numbers(result, "ttfts"),
                              latencies = numbers(result, "latencies");
    if (starts.size() != firsts.size() || starts.size() != latencies.size()) {
        throw_missing(result, "start_times, ttfts and latencies have different lengths");
    }
    Chart chart{.title = "Requests over time",
                .x_label = "time (s)",
                .y_label = "request",
                .series = {},
                .bars = {},
                .bar_names = {"waiting for the first token", "generating"}};
    const double origin = starts.empty() ? 0.0 : *std::ranges::min_element(starts);
    for (size_t i = 0; i < starts.size(); ++i) {
        const double begin = starts[i] - origin;
        chart.bars.push_back({i, begin, begin + firsts[i], 0});
        chart.bars.push_back({i, begin + firsts[i], begin + latencies[i], 1});
    }
    return chart;
}

Chart roofline_chart(const NamedResult& result) {
    const auto roof = result.object->find("roof"), ops = result.object->find("ops");
    if (roof == result.object->end() || !roof->is_object() || ops == result.object->end() ||
        !ops->is_array()) {
        throw_missing(result,
                      "has no \"roof\" and \"ops\": it is no result of nvllm-bench kernels");
    }
    const auto bandwidth = number(*roof, "read_gb_s");
    if (!bandwidth || *bandwidth <= 0.0) throw_missing(result, "\"roof\" has no read_gb_s");
    Chart chart{.title = "Roofline",
                .x_label = "arithmetic intensity (operations per byte)",
                .y_label = "10^9 operations per second",
                .x_is_logarithmic = true,
                .y_is_logarithmic = true,
                .series = {},
                .bars = {},
                .bar_names = {}};
    std::vector<RooflineOp> points;
    for (const Json& op : *ops) points.push_back(roofline_op(result, op, *roof));
    add_roofs(chart, points, *bandwidth);
    add_ops(chart, points);
    return chart;
}

}  // namespace nvllm
