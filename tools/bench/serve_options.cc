// Names, help and meaning of the serving flags.
#include "tools/bench/serve_options.h"

#include <fmt/format.h>

#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

void add_server(OptionList<ServeOptions>& list) {
    list.group("Server");
    list.add("backend", &ServeOptions::backend, "openai: completions; openai-chat: chat.",
             choices({"openai", "openai-chat"}));
    list.add("base-url", &ServeOptions::base_url, "Such as http://127.0.0.1:8000.",
             value_name("URL"), default_text("--host and --port"));
    list.add("host", &ServeOptions::host, "Name or address.");
    list.add("port", &ServeOptions::port, "TCP port.", range(1, 65535));
    list.add("endpoint", &ServeOptions::endpoint, "Path below the base URL.",
             default_text("/v1/completions, or /v1/chat/completions"));
    list.add("header", &ServeOptions::headers, "A header of every request.",
             value_name("KEY=VALUE"));
    list.add("model", &ServeOptions::model, "The model's name.", short_name('m'),
             default_text("the first that the server lists"));
    list.add("served-model-name", &ServeOptions::served_model_name,
             "The name sent to the server, when it is not the model's.");
    list.add("tokenizer", &ServeOptions::tokenizer,
             "A model's directory: its tokenizer makes random texts and counts tokens where the "
             "server does not.",
             value_name("DIR"), default_text("the bundled demo's"));
    list.add("ready-check-timeout-sec", &ServeOptions::ready_check_timeout_s,
             "Wait so long for the server to answer.", range(0.0, 86400.0));
    list.add("request-timeout-sec", &ServeOptions::request_timeout_s,
             "A request that takes longer has failed.", range(0.001, 864000.0));
}

void add_load(OptionList<ServeOptions>& list) {
    list.group("Load");
    list.add("request-rate", &ServeOptions::request_rate, "Requests per second; inf: all at once.",
             value_name("RPS"));
    list.add("burstiness", &ServeOptions::burstiness,
             "Of the gaps between requests: 1 is a Poisson process, less is burstier.",
             range(0.001, 1000.0));
    list.add("max-concurrency", &ServeOptions::max_concurrency,
             "Requests open at a time; others wait, unsent.", range(1, 1'000'000));
    list.add("ramp-up-strategy", &ServeOptions::ramp_up_strategy,
             "How the rate grows from start to end, instead of --request-rate.",
             choices({"linear", "exponential"}));
    list.add("ramp-up-start-rps", &ServeOptions::ramp_up_start_rps, "Rate at the start.",
             range(0.001, 1e6));
    list.add("ramp-up-end-rps", &ServeOptions::ramp_up_end_rps, "Rate at the end.",
             range(0.001, 1e6));
    list.add("num-warmups", &ServeOptions::num_warmups, "Requests before the run, not counted.",
             range(0, 100000));
    list.add("temperature", &ServeOptions::temperature, "0: always the likeliest token.",
             range(0.0, 2.0));
    list.add("ignore-eos", &ServeOptions::ignore_eos,
             "Go on past end tokens. Servers that refuse fields they do not know need "
             "--no-ignore-eos.",
             default_text("for random prompts"));
    list.add("send-token-ids", &ServeOptions::send_token_ids,
             "Send prompts as token ids, not as text: every server computes the same tokens.");
    list.add("extra-body", &ServeOptions::extra_body, "Further fields of every request.",
             value_name("JSON"));
    list.add(
        "structured-output", &ServeOptions::structured_output,
        "A JSON schema that every answer is held to. Such an answer ends where the schema lets "
        "it, so ignore_eos is not sent.",
        value_name("FILE"));
    list.add("lora-modules", &ServeOptions::lora_modules,
             "Names of adapters that the server has: each request asks for one of them instead of "
             "the model.",
             value_name("NAME"), takes_several());
    list.add("seed", &ServeOptions::seed, "Of prompts, lengths, gaps and adapters.");
}

void add_result(OptionList<ServeOptions>& list) {
    list.group("Result");
    list.add("percentile-metrics", &ServeOptions::percentile_metrics,
             "Sections shown: ttft, tpot, itl, e2el.", value_name("LIST"));
    list.add("metric-percentiles", &ServeOptions::metric_percentiles, "Percentiles shown.",
             value_name("LIST"));
    list.add("goodput", &ServeOptions::goodput,
             "Limits that a good request meets: ttft:MS, tpot:MS, e2el:MS.", value_name("KEY:MS"));
    list.add("label", &ServeOptions::label, "Begins the result's file name.",
             default_text("the backend"));
    list.add("save-result", &ServeOptions::save_result, "Write the result below --result-dir.");
    list.add("save-detailed", &ServeOptions::save_detailed,
             "Keep every request's times and text in the result.");
    list.add("append-result", &ServeOptions::append_result,
             "Add the result to the file, as a line.");
    list.add("metadata", &ServeOptions::metadata, "Added to the result.", value_name("KEY=VALUE"));
    list.add("result-dir", &ServeOptions::result_dir, "Where results go.", value_name("DIR"));
    list.add("result-filename", &ServeOptions::result_filename, "Name of the result.",
             value_name("NAME"),
             default_text("{label}-{rate}qps[-concurrencyN]-{model}-{date}-{time}.json"));
    list.add("output-json", &ServeOptions::output_json, kOutputJsonHelp, value_name("FILE"));
}

}  // namespace

OptionList<ServeOptions> serve_options() {
    OptionList<ServeOptions> list("serve");
    add_server(list);
    add_load(list);
    add_result(list);
    return list;
}

ServerAddress server_of(const ServeOptions& options) {
    if (options.base_url) return parse_server_url(*options.base_url, "--base-url");
    return {.host = options.host,
            .port = static_cast<uint16_t>(options.port),
            .base_path = "",
            .unix_socket = {}};
}

std::string endpoint_of(const ServeOptions& options) {
    if (!options.endpoint) {
        return options.backend == "openai-chat" ? "/v1/chat/completions" : "/v1/completions";
    }
    if (!options.endpoint->starts_with('/')) {
        throw Error(ErrorKind::usage,
                    fmt::format("--endpoint: '{}' does not begin with /", *options.endpoint));
    }
    return *options.endpoint;
}

std::vector<HttpHeader> headers_of(const std::vector<std::string>& texts, const char* flag) {
    std::vector<HttpHeader> headers;
    for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        if (equals == 0 || equals == std::string::npos ||
            text.find_first_of("\r\n") != std::string::npos) {
            throw Error(ErrorKind::usage, fmt::format("{}: '{}' is not KEY=VALUE", flag, text));
        }
        headers.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    return headers;
}

ArrivalOptions arrivals_of(const ServeOptions& options) {
    ArrivalOptions arrivals;
    arrivals.burstiness = options.burstiness;
    arrivals.seed = options.seed;
    arrivals.request_rate = parse_request_rate(options.request_rate);
    if (!options.ramp_up_strategy) return arrivals;
    if (!options.ramp_up_start_rps || !options.ramp_up_end_rps) {
        throw Error(ErrorKind::usage,
                    "--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps");
    }
    arrivals.ramp_up_strategy = options.ramp_up_strategy;
    arrivals.ramp_up_start_rps = *options.ramp_up_start_rps;
    arrivals.ramp_up_end_rps = *options.ramp_up_end_rps;
    return arrivals;
}

}  // namespace nvllm::bench
