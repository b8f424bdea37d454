// The flags of nvllm-bench serve, named as those of vllm bench serve.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/options.h"
#include "lib/measure/serving/arrivals.h"
#include "lib/measure/serving/http_load.h"

namespace nvllm::bench {

struct ServeOptions {
    std::string backend = "openai";
    std::optional<std::string> base_url;
    std::string host = "127.0.0.1";
    int32_t port = 8000;
    std::optional<std::string> endpoint;
    std::vector<std::string> headers;  // KEY=VALUE
    std::optional<std::string> model, served_model_name, tokenizer;
    double ready_check_timeout_s = 0.0;
    double request_timeout_s = 21600.0;

    std::string request_rate = "inf";
    double burstiness = 1.0;
    std::optional<int32_t> max_concurrency;
    std::optional<std::string> ramp_up_strategy;
    std::optional<double> ramp_up_start_rps, ramp_up_end_rps;
    int32_t num_warmups = 0;
    double temperature = 0.0;
    std::optional<bool> ignore_eos;
    bool send_token_ids = false;
    std::string extra_body;
    std::vector<std::string> lora_modules;  // names
    std::optional<std::filesystem::path> structured_output;

    std::string percentile_metrics = "ttft,tpot,itl";
    std::string metric_percentiles = "99";
    std::vector<std::string> goodput;
    std::optional<std::string> label;
    bool save_result = false, save_detailed = false, append_result = false;
    std::vector<std::string> metadata;  // KEY=VALUE
    std::filesystem::path result_dir = ".";
    std::optional<std::string> result_filename;
    std::optional<std::filesystem::path> output_json;
    uint64_t seed = 0;
};

OptionList<ServeOptions> serve_options();

// Each throws usage that names the flag.
ServerAddress server_of(const ServeOptions& options);
std::string endpoint_of(const ServeOptions& options);
std::vector<HttpHeader> headers_of(const std::vector<std::string>& texts, const char* flag);
ArrivalOptions arrivals_of(const ServeOptions& options);

}  // namespace nvllm::bench
