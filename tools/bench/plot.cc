// nvllm-bench plot.
#include <fmt/format.h>

#include "lib/base/file.h"
#include "lib/cli/main_guard.h"
#include "lib/measure/plots.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::string kind = "latency";
    std::vector<std::filesystem::path> files;
    std::optional<std::filesystem::path> output;
};

OptionList<Options> own_options() {
    OptionList<Options> list("plot");
    list.group("Chart");
    list.add("kind", &Options::kind,
             "latency: throughput against latency of any number of results; timeline: the requests "
             "of one detailed serving result; roofline: one result of kernels.",
             choices({"latency", "timeline", "roofline"}));
    list.add("result", &Options::files, "Results as JSON, or JSONL of a sweep.", value_name("FILE"),
             positional());
    list.add("output", &Options::output, "Where the SVG goes.", short_name('o'), value_name("FILE"),
             default_text("standard output"));
    return list;
}

Chart chart_of(const std::string& kind, const std::vector<NamedResult>& results) {
    if (kind == "latency") return latency_chart(results);
    if (results.size() != 1) {
        throw Error(ErrorKind::usage, fmt::format("--kind {} takes one result", kind));
    }
    return kind == "timeline" ? timeline_chart(results[0]) : roofline_chart(results[0]);
}

}  // namespace

int run_plot(const Invocation& invocation) {
    Options own;
    const auto own_list = own_options();
    OptionSet options;
    options.add(own_list, own);
    if (answered(invocation, options)) return 0;
    if (own.files.empty()) throw Error(ErrorKind::usage, "no result: name a JSON file");
    std::vector<NamedResult> results;
    for (const std::filesystem::path& file : own.files) {
        for (NamedResult& result : read_results(file)) results.push_back(std::move(result));
    }
    const std::string svg = draw_svg(chart_of(own.kind, results));
    if (own.output) {
        write_file(*own.output, svg);
    } else {
        write_output(svg);
    }
    return 0;
}

}  // namespace nvllm::bench
