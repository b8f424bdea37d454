// Banners, padded lines and keys.
#include "lib/measure/serving/serving_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/option_values.h"
#include "lib/base/statistics.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

struct Section {
    const char* key;
    const char* name;
    const char* title;
    std::vector<double> ServingMetrics::*samples;
};
const std::array kSections = {
    Section{"ttft", "TTFT", "Time to First Token", &ServingMetrics::ttfts_ms},
    Section{"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &ServingMetrics::tpots_ms},
    Section{"itl", "ITL", "Inter-token Latency", &ServingMetrics::itls_ms},
    Section{"e2el", "E2EL", "End-to-end Latency", &ServingMetrics::e2els_ms}};

std::string percent_name(double percent) { return fmt::format("{:g}", percent); }

std::string count_line(const std::string& label, int64_t value) {
    return fmt::format("{:<40} {:<10}\n", label, value);
}
std::string value_line(const std::string& label, double value) {
    return fmt::format("{:<40} {:<10.2f}\n", label, value);
}

std::string section_text(const Section& section, const ServingMetrics& metrics,
                         const std::vector<double>& percentiles) {
    const std::vector<double>& samples = metrics.*section.samples;
    std::string text = fmt::format("{:-^50}\n", section.title);
    text += value_line(fmt::format("Mean {} (ms):", section.name), mean(samples));
    text += value_line(fmt::format("Median {} (ms):", section.name), median(samples));
    for (const double percent : percentiles) {
        text += value_line(fmt::format("P{} {} (ms):", percent_name(percent), section.name),
                           percentile(samples, percent));
    }
    return text;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

}  // namespace

std::vector<std::string> parse_metric_names(const std::string& text) {
    std::vector<std::string> names = split(text);
    for (const std::string& name : names) {
        if (std::ranges::none_of(kSections, [&](const Section& one) { return one.key == name; })) {
            throw Error(
                ErrorKind::usage,
                fmt::format("--percentile-metrics: '{}' is none of ttft, tpot, itl, e2el", name));
        }
    }
    return names;
}

std::vector<double> parse_percentiles(const std::string& text) {
    std::vector<double> percentiles;
    for (const std::string& part : split(text)) {
        const auto value = parse_number(part);
        if (!value || *value < 0.0 || *value > 100.0) {
            throw Error(
                ErrorKind::usage,
                fmt::format("--metric-percentiles: '{}' is not a number from 0 to 100", part));
        }
        percentiles.push_back(*value);
    }
    return percentiles;
}

std::string serving_table(const ServingMetrics& metrics, const ReportOptions& options) {
    std::string text = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
    text += count_line("Successful requests:", metrics.completed);
    text += count_line("Failed requests:", metrics.failed);
    if (options.max_concurrency) {
        text += count_line("Maximum request concurrency:", *options.max_concurrency);
    }
    if (std::isfinite(options.request_rate)) {
        text += value_line("Request rate configured (RPS):", options.request_rate);
    }
    text += value_line("Benchmark duration (s):", metrics.duration_s);
    text += count_line("Total input tokens:", metrics.total_input_tokens);
    text += count_line("Total generated tokens:", metrics.total_output_tokens);
    text += value_line("Request throughput (req/s):", metrics.request_throughput);
    if (metrics.request_goodput) {
        text += value_line("Request goodput (req/s):", *metrics.request_goodput);
    }
    text += value_line("Output token throughput (tok/s):", metrics.output_throughput);
    text += value_line("Peak output token throughput (tok/s):", metrics.max_output_tokens_per_s);
    text += value_line("Peak concurrent requests:",
                       static_cast<double>(metrics.max_concurrent_requests));
    text += value_line("Total token throughput (tok/s):", metrics.total_token_throughput);
    for (const Section& section : kSections) {
        if (std::ranges::find(options.metrics, section.key) == options.metrics.end()) continue;
        text += section_text(section, metrics, options.percentiles);
    }
    return text + std::string(50, '=') + "\n";
}

Json serving_json(const ServingMetrics& metrics, const ReportOptions& options) {
    Json object = {{"duration", metrics.duration_s},
                   {"completed", metrics.completed},
                   {"failed", metrics.failed},
                   {"total_input_tokens", metrics.total_input_tokens},
                   {"total_output_tokens", metrics.total_output_tokens},
                   {"request_throughput", metrics.request_throughput},
                   {"request_goodput", nullptr},
                   {"output_throughput", metrics.output_throughput},
                   {"total_token_throughput", metrics.total_token_throughput},
                   {"max_output_tokens_per_s", metrics.max_output_tokens_per_s},
                   {"max_concurrent_requests", metrics.max_concurrent_requests}};
    if (metrics.request_goodput) object["request_goodput"] = *metrics.request_goodput;
    for (const Section& section : kSections) {
        const std::vector<double>& samples = metrics.*section.samples;
        object[fmt::format("mean_{}_ms", section.key)] = mean(samples);
        object[fmt::format("median_{}_ms", section.key)] = median(samples);
        object[fmt::format("std_{}_ms", section.key)] = population_deviation(samples);
        for (const double percent : options.percentiles) {
            object[fmt::format("p{}_{}_ms", percent_name(percent), section.key)] =
                percentile(samples, percent);
        }
    }
    return object;
}

void add_details(Json& object, std::span<const RequestRecord> requests) {
    for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "latencies",
                            "start_times", "generated_texts", "errors"}) {
        object[key] = Json::array();
    }
    for (const RequestRecord& request : requests) {
        const auto& times = request.token_times_s;
        Json gaps = Json::array();
        for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
        object["input_lens"].push_back(request.num_prompt_tokens);
        object["output_lens"].push_back(request.num_output_tokens);
        object["ttfts"].push_back(times.empty() ? 0.0 : times.front() - request.sent_s);
        object["itls"].push_back(std::move(gaps));
        object["latencies"].push_back(times.empty() ? 0.0 : times.back() - request.sent_s);
        object["start_times"].push_back(request.sent_s);
        object["generated_texts"].push_back(request.text);
        object["errors"].push_back(request.error.value_or(""));
    }
}

std::string python_float(double value) {
    if (std::isinf(value)) return "inf";
    std::string text = format_value(value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string result_file_name(const ResultName& name) {
    std::string file = name.label + "-";
    if (name.ramp_up_strategy) {
        file +=
            fmt::format("ramp-up-{}-{}qps-{}qps", *name.ramp_up_strategy,
                        format_value(name.ramp_up_start_rps), format_value(name.ramp_up_end_rps));
    } else {
        file += python_float(name.request_rate) + "qps";
    }
    if (name.max_concurrency) file += fmt::format("-concurrency{}", *name.max_concurrency);
    std::string model = name.model;
    while (model.ends_with('/')) model.pop_back();
    model = model.substr(model.rfind('/') + 1);
    return fmt::format("{}-{}-{}.json", file, model, name.time_stamp);
}

}  // namespace nvllm
