// The console block and the JSON keys of vllm bench serve.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/serving/serving_metrics.h"

namespace nvllm {

struct ReportOptions {
    std::vector<std::string> metrics = {"ttft", "tpot", "itl"};  // sections, in the order of vLLM's
    std::vector<double> percentiles = {99.0};
    std::optional<int32_t> max_concurrency = {};
    double request_rate = 0.0;  // infinity: not shown
};

// "ttft,tpot,itl,e2el" and "50,99". Throws usage that names the flag and what is known.
std::vector<std::string> parse_metric_names(const std::string& text);
std::vector<double> parse_percentiles(const std::string& text);

std::string serving_table(const ServingMetrics& metrics, const ReportOptions& options);

// duration, completed, failed, totals, throughputs, peaks, and {mean,median,std,pNN}_{ttft,tpot,
// itl,e2el}_ms.
nlohmann::ordered_json serving_json(const ServingMetrics& metrics, const ReportOptions& options);

// Arrays by request: input_lens, output_lens, ttfts, itls, latencies, start_times (seconds),
// generated_texts, errors.
void add_details(nlohmann::ordered_json& object, std::span<const RequestRecord> requests);

// "openai-2.0qps-concurrency8-demo-20261120-140501.json"; a rate of infinity is "infqps".
struct ResultName {
    std::string label;
    double request_rate = 0.0;
    std::optional<std::string> ramp_up_strategy = {};
    double ramp_up_start_rps = 0.0, ramp_up_end_rps = 0.0;
    std::optional<int32_t> max_concurrency = {};
    std::string model;  // what follows its last slash is taken
    std::string time_stamp;
};
std::string result_file_name(const ResultName& name);

// A float as Python prints it: "2.0", "inf".
std::string python_float(double value);

}  // namespace nvllm
