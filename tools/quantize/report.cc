// nvllm-quantize report: what lies in an output's folder, as text, JSON or a picture.
#include "lib/quantize/report.h"

#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/cli/options.h"
#include "lib/plot/chart.h"
#include "lib/quantize/hooked_model.h"
#include "tools/quantize/native_linears.h"
#include "tools/quantize/quantize.h"

namespace nvllm::quantize_tool {
namespace {

struct ReportOptions {
    std::filesystem::path folder;
    bool linears = false;
    bool json = false;
    std::optional<std::filesystem::path> svg;
};

OptionList<ReportOptions> report_options() {
    OptionList<ReportOptions> list("report");
    list.add("folder", &ReportOptions::folder, "What nvllm-quantize wrote.", value_name("DIR"),
             positional());
    list.add("linears", &ReportOptions::linears, "A line for each linear too.");
    list.add("json", &ReportOptions::json, "One JSON object, schema nvllm-quantize.report/1.");
    list.add("svg", &ReportOptions::svg, "Draw the errors of all linears by block.",
             value_name("FILE"));
    return list;
}

// "self_attn.q_proj" of "model.layers.3.self_attn.q_proj".
std::string place_in_block(const std::string& name, int32_t block) {
    const std::string number = "." + std::to_string(block) + ".";
    const size_t found = name.find(number);
    return found == std::string::npos ? name : name.substr(found + number.size());
}

std::string drawing(const quantize::Report& report) {
    Chart chart;
    chart.title = "Relative error of each linear, " + report.model;
    chart.x_label = "block";
    chart.y_label = "squared error of the output, relative";
    chart.y_is_logarithmic = true;
    for (const quantize::LinearRecord& record : report.linears) {
        const auto block = quantize::block_of_name(record.name);
        if (!block) continue;
        const std::string place = place_in_block(record.name, *block);
        auto series = std::find_if(chart.series.begin(), chart.series.end(),
                                   [&](const ChartSeries& one) { return one.name == place; });
        if (series == chart.series.end()) {
            chart.series.push_back({place, {}});
            series = chart.series.end() - 1;
        }
        series->points.emplace_back(*block, record.relative_error);
    }
    return draw_svg(chart);
}

}  // namespace

int run_report(const Invocation& invocation) {
    ReportOptions options;
    const auto list = report_options();
    OptionSet set;
    set.add(list, options);
    if (answered(invocation, set)) return 0;
    if (options.folder.empty()) throw Error(ErrorKind::usage, "name a folder: report DIR");
    const quantize::Report report = quantize::read_report(options.folder);
    if (options.svg) write_file(*options.svg, drawing(report));
    // Of the machine, not of the model: no part of the file.
    const auto linears = quantized_linears(options.folder);
    if (options.json) {
        nlohmann::ordered_json object = quantize::report_json(report);
        if (linears) object["on_this_cpu"] = native_linears_json(*linears);
        write_output(write_json(object) + "\n");
        return 0;
    }
    write_output(quantize::report_text(report, options.linears) +
                 (linears ? native_linears_text(*linears, "runs     ") : ""));
    return 0;
}

}  // namespace nvllm::quantize_tool
