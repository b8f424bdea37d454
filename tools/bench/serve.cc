// nvllm-bench serve.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/default_model.h"
#include "lib/measure/environment.h"
#include "lib/measure/serving/serving.h"
#include "lib/measure/serving/serving_report.h"
#include "lib/tokenizer/tokenizer.h"
#include "tools/bench/bench.h"
#include "tools/bench/serve_options.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMaxErrorsShown = 3;

std::filesystem::path tokenizer_directory(const ServeOptions& own) {
    if (own.tokenizer) return *own.tokenizer;
    const auto bundled = bundled_model_directory();
    if (!bundled) {
        throw Error(ErrorKind::usage,
                    "no tokenizer: give one with --tokenizer DIR (the bundled "
                    "demo is not installed)");
    }
    return *bundled;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& directory) {
    auto tokenizer = Tokenizer::load(directory);
    if (tokenizer == nullptr) {
        throw Error(ErrorKind::not_found, directory.string() + ": has no tokenizer");
    }
    return tokenizer;
}

// Asks for the model's name until the server answers or the time is over.
std::string wait_for_model(const HttpLoadOptions& http, double timeout_s) {
    const MonotonicClock clock;
    const double end_s = clock.now_s() + timeout_s;
    for (;;) {
        try {
            return served_model(http);
        } catch (const Error& error) {
            if (error.kind() != ErrorKind::unavailable || clock.now_s() >= end_s) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (const auto signal = stop_signal()) throw Interrupted{*signal};
    }
}

// A prompt without a text is sent as ids.
void set_text(WorkItem& item, const ServeOptions& own, const Tokenizer& tokenizer) {
    if (own.send_token_ids) {
        item.text.clear();
        return;
    }
    if (item.text.empty()) item.text = tokenizer.decode(item.prompt_ids, true);
    if (item.text.empty()) item.text = " ";
}

std::vector<WorkItem> make_items(const ServeOptions& own, const WorkloadOptions& workload,
                                 const Tokenizer& tokenizer) {
    std::vector<WorkItem> items = make_workload(workload, {tokenizer.vocab_size(), &tokenizer});
    for (WorkItem& item : items) {
        set_text(item, own, tokenizer);
        item.ignore_eos = own.ignore_eos.value_or(item.ignore_eos);
    }
    set_arrivals(items, arrivals_of(own));
    return items;
}

void warm_up(const std::vector<WorkItem>& items, int32_t count, ServingOptions options) {
    if (count == 0) return;
    std::vector<WorkItem> few(items.begin(),
                              items.begin() + std::min<ptrdiff_t>(count, std::ssize(items)));
    for (WorkItem& item : few) item.send_at_s = 0.0;
    options.http.max_concurrency = 1;
    measure_serving(few, options);
}

LoadResult measure_with_progress(const std::vector<WorkItem>& items, ServingOptions options) {
    BenchProgress progress("Requests", items.size());
    options.http.done = [&](size_t done) { progress.update(done); };
    return measure_serving(items, options);
}

Json head_json(const ServeOptions& own, const std::string& model, const ArrivalOptions& arrivals,
               size_t num_prompts) {
    Json object = {{"date", compact_time_stamp()},
                   {"endpoint_type", own.backend},
                   {"backend", own.backend},
                   {"label", own.label ? Json(*own.label) : Json(nullptr)},
                   {"model_id", model},
                   {"tokenizer_id", tokenizer_directory(own).string()},
                   {"num_prompts", num_prompts}};
    for (const HttpHeader& entry : headers_of(own.metadata, "--metadata")) {
        object[entry.name] = entry.value;
    }
    object["structured_output"] =
        own.structured_output ? Json(own.structured_output->string()) : Json(nullptr);
    object["request_rate"] =
        std::isinf(arrivals.request_rate) ? Json("inf") : Json(arrivals.request_rate);
    object["burstiness"] = arrivals.burstiness;
    object["max_concurrency"] = own.max_concurrency ? Json(*own.max_concurrency) : Json(nullptr);
    if (own.ramp_up_strategy) {
        object["ramp_up_strategy"] = *own.ramp_up_strategy;
        object["ramp_up_start_rps"] = arrivals.ramp_up_start_rps;
        object["ramp_up_end_rps"] = arrivals.ramp_up_end_rps;
    }
    return object;
}

void say_errors(const LoadResult& result) {
    std::set<std::string> said;
    for (const RequestRecord& request : result.requests) {
        if (!request.error || !said.insert(*request.error).second) continue;
        if (said.size() > kMaxErrorsShown) break;
        fmt::print(stderr, "nvllm-bench: a request failed: {}\n", *request.error);
    }
}

std::filesystem::path result_file(const ServeOptions& own, const Json& result,
                                  const ArrivalOptions& arrivals) {
    if (own.result_filename) return own.result_dir / *own.result_filename;
    return own.result_dir / result_file_name({.label = own.label.value_or(own.backend),
                                              .request_rate = arrivals.request_rate,
                                              .ramp_up_strategy = arrivals.ramp_up_strategy,
                                              .ramp_up_start_rps = arrivals.ramp_up_start_rps,
                                              .ramp_up_end_rps = arrivals.ramp_up_end_rps,
                                              .max_concurrency = own.max_concurrency,
                                              .model = result["model_id"].get<std::string>(),
                                              .time_stamp = result["date"].get<std::string>()});
}

void save(const ServeOptions& own, const Json& result, const std::filesystem::path& file) {
    const std::string line = result.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!own.append_result) return write_file(file, line);
    std::ofstream stream(file, std::ios::app);
    stream << line << std::flush;
    if (!stream) throw Error(ErrorKind::cannot_create, file.string() + ": cannot be written");
}

ReportOptions report_of(const ServeOptions& own) {
    return {.metrics = parse_metric_names(own.percentile_metrics),
            .percentiles = parse_percentiles(own.metric_percentiles),
            .max_concurrency = own.max_concurrency,
            .request_rate = arrivals_of(own).request_rate};
}

ServingOptions serving_of(const ServeOptions& own) {
    ServingOptions serving;
    serving.http = {.server = server_of(own),
                    .path = endpoint_of(own),
                    .headers = headers_of(own.headers, "--header"),
                    .max_concurrency = own.max_concurrency,
                    .timeout_s = own.request_timeout_s};
    serving.temperature = own.temperature;
    serving.extra_body = own.extra_body;
    if (own.structured_output) {
        if (own.ignore_eos == true) {
            throw Error(ErrorKind::usage, "--ignore-eos: not together with --structured-output");
        }
        serving.schema = read_file(*own.structured_output);
        parse_json(serving.schema, own.structured_output->string());
    }
    return serving;
}

// The name given, else the first that the server lists; asked for in any case when the server is to
// be waited for.
std::string model_of(const ServeOptions& own, const HttpLoadOptions& http) {
    if (own.model && own.ready_check_timeout_s == 0.0) return *own.model;
    const std::string first = wait_for_model(http, own.ready_check_timeout_s);
    return own.model.value_or(first);
}

}  // namespace

int run_serve(const Invocation& invocation) {
    ServeOptions own;
    AdapterChoice adapters;
    WorkloadOptions workload;
    const auto own_list = serve_options();
    const auto adapter_list = adapter_options();
    const auto workload_list = workload_options();
    OptionSet options;
    options.add(own_list, own);
    options.add(adapter_list, adapters);
    options.add(workload_list, workload);
    add_neighbour_flags(options);
    if (answered(invocation, options)) return 0;
    if (own.send_token_ids && is_chat(endpoint_of(own))) {
        throw Error(ErrorKind::usage, "--send-token-ids: chats are texts; use --backend openai");
    }
    check_adapter_choice(options, adapters, !own.lora_modules.empty());
    // NVLLM_MODEL names the model of engines in this process; a server knows its own.
    if (options.find("model")->origin() == OptionOrigin::environment) own.model.reset();
    watch_stop_signals();
    workload.seed = own.seed;
    const ReportOptions report = report_of(own);
    const GoodputLimits limits = parse_goodput(own.goodput);
    const ArrivalOptions arrivals = arrivals_of(own);
    ServingOptions serving = serving_of(own);
    const auto tokenizer = load_tokenizer(tokenizer_directory(own));
    serving.tokenizer = tokenizer.get();
    std::vector<WorkItem> items = make_items(own, workload, *tokenizer);
    choose_adapters(adapters, own.lora_modules, own.seed, items);
    check_writable(own.output_json);

    const std::string model = model_of(own, serving.http);
    serving.model = own.served_model_name.value_or(model);
    warm_up(items, own.num_warmups, serving);
    const LoadResult result = measure_with_progress(items, serving);
    say_errors(result);

    const ServingMetrics metrics = serving_metrics(result.requests, result.elapsed_s, limits);
    Json object = head_json(own, model, arrivals, items.size());
    object.update(serving_json(metrics, report));
    if (own.save_detailed) add_details(object, result.requests);
    object["environment"] = environment_of(invocation, nullptr);
    if (own.save_result || own.append_result) save(own, object, result_file(own, object, arrivals));
    const int code = publish(invocation, nullptr, serving_table(metrics, report), std::move(object),
                             own.output_json);
    if (metrics.completed > 0) return code;
    throw Error(ErrorKind::unavailable, "no request was answered");
}

}  // namespace nvllm::bench
