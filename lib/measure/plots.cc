// Results to charts.
#include "lib/measure/plots.h"

#include <fmt/format.h>

#include <algorithm>
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
    const auto bandwidth = number(*roof, "read_gb_s"), peak = number(*roof, "float32_gflop_s");
    if (!bandwidth || !peak || *bandwidth <= 0.0) {
        throw_missing(result, "\"roof\" has no read_gb_s and float32_gflop_s");
    }
    Chart chart{.title = "Roofline",
                .x_label = "arithmetic intensity (FLOP per byte)",
                .y_label = "GFLOP/s",
                .x_is_logarithmic = true,
                .y_is_logarithmic = true,
                .series = {},
                .bars = {},
                .bar_names = {}};
    const double ridge = *peak / *bandwidth;
    chart.series.push_back({fmt::format("roof: {:.1f} GB/s, {:.0f} GFLOP/s", *bandwidth, *peak),
                            {{0.05, 0.05 * *bandwidth}, {ridge, *peak}, {ridge * 30.0, *peak}},
                            true,
                            false});
    for (const Json& op : *ops) {
        const auto intensity = op.is_object() ? number(op, "flop_per_byte") : std::nullopt;
        const auto rate = op.is_object() ? number(op, "gflop_s") : std::nullopt;
        const auto name = op.is_object() ? op.find("op") : op.end();
        if (!intensity || !rate || name == op.end() || !name->is_string()) {
            throw_missing(result, "an entry of \"ops\" has no op, flop_per_byte and gflop_s");
        }
        chart.series.push_back({name->get<std::string>(), {{*intensity, *rate}}, false, true});
    }
    return chart;
}

}  // namespace nvllm
