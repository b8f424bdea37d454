// nvllm-bench trace.
#include "lib/measure/serving/trace.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/measure/serving/serving.h"
#include "lib/measure/serving/serving_report.h"
#include "lib/tokenizer/tokenizer.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::filesystem::path file;
    std::optional<std::string> base_url, served_model_name;
    double time_scale = 1.0, length_scale = 1.0;
    int32_t trace_block_size = 512;
    std::optional<int32_t> limit, max_input_len;
    bool save_detailed = false;
    uint64_t seed = 0;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("trace");
    list.group("Trace");
    list.add("file", &Options::file,
             "Lines {\"timestamp\": ms, \"input_length\": n, \"output_length\": n, \"hash_ids\": "
             "[...]}, as Mooncake publishes them.",
             short_name('f'), value_name("FILE"), positional());
    list.add("time-scale", &Options::time_scale,
             "Factor on the times between requests: 0.5 is twice as fast, 0 all at once.",
             range(0.0, 1e6));
    list.add("length-scale", &Options::length_scale,
             "Factor on prompt and output lengths, for models of a shorter context.",
             range(1e-6, 1000.0));
    list.add("trace-block-size", &Options::trace_block_size,
             "Prompt tokens that a hash id stands for.", range(1, 1 << 20));
    list.add("limit", &Options::limit, "Requests from the beginning.", range(1, 1 << 30),
             default_text("all"));
    list.add("max-input-len", &Options::max_input_len, "Cut longer prompts to so many tokens.",
             range(1, 1 << 24), default_text("no cut"));
    list.add("seed", &Options::seed, "Of the tokens.");
    list.group("Target");
    list.add("base-url", &Options::base_url,
             "Replay against this OpenAI server, with token ids as prompts, and not against the "
             "engine.",
             value_name("URL"));
    list.add("served-model-name", &Options::served_model_name, "The model's name there.",
             default_text("the first that the server lists"));
    list.group("Result");
    list.add("save-detailed", &Options::save_detailed, "Keep every request's times in the result.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

std::vector<WorkItem> read_items(const Options& own, int64_t vocab_size) {
    return read_trace(own.file,
                      {.block_tokens = own.trace_block_size,
                       .time_scale = own.time_scale,
                       .length_scale = own.length_scale,
                       .max_requests = own.limit,
                       .max_input_tokens = own.max_input_len,
                       .seed = own.seed},
                      vocab_size);
}

LoadResult replay_on_engine(const std::vector<WorkItem>& items, Engine& engine,
                            const EngineConfig& config, uint64_t seed) {
    EngineLoad load(engine);
    BenchProgress progress("Tokens", static_cast<size_t>(total_tokens(items)));
    try {
        return load.run(
            items, {.batching = Batching::timed,
                    .batch = config.scheduling.scheduler.max_num_seqs,
                    .seed = seed,
                    .cache_salt = "trace",
                    .done = [&](int64_t done) { progress.update(static_cast<size_t>(done)); }});
    } catch (const Interrupted& stopped) {
        LoadResult partial = *stopped.partial;
        std::erase_if(partial.requests,
                      [](const RequestRecord& request) { return request.finished_s <= 0.0; });
        if (partial.requests.empty()) throw;
        return partial;
    }
}

LoadResult replay_on_server(const std::vector<WorkItem>& items, const Options& own) {
    ServingOptions serving;
    serving.http.server = parse_server_url(*own.base_url, "--base-url");
    serving.http.path = "/v1/completions";
    serving.model = own.served_model_name ? *own.served_model_name : served_model(serving.http);
    BenchProgress progress("Requests", items.size());
    serving.http.done = [&](size_t done) { progress.update(done); };
    return measure_serving(items, serving);
}

int publish_replay(const Invocation& invocation, const EngineConfig* config, const Options& own,
                   const std::vector<WorkItem>& items, const LoadResult& result) {
    const ReportOptions report{.metrics = {"ttft", "tpot", "itl", "e2el"},
                               .percentiles = {50.0, 90.0, 99.0},
                               .max_concurrency = {},
                               .request_rate = std::numeric_limits<double>::infinity()};
    const ServingMetrics metrics = serving_metrics(result.requests, result.elapsed_s, {});
    int64_t cached = 0;
    for (const RequestRecord& request : result.requests) cached += request.num_cached_tokens;
    const double prompt = std::max<double>(1.0, static_cast<double>(total_prompt_tokens(items)));
    const double reusable =
        reusable_share(items, config == nullptr ? 16 : config->kv_cache.block_size.tokens);
    Json object = serving_json(metrics, report);
    object["num_prompts"] = items.size();
    object["reusable_share"] = reusable;
    std::string table = serving_table(metrics, report);
    table += fmt::format("{:<40} {:<10.1f}\n",
                         "Prompt tokens that could be reused (%):", reusable * 100.0);
    if (config != nullptr) {
        object["cached_share"] = static_cast<double>(cached) / prompt;
        table += fmt::format("{:<40} {:<10.1f}\n", "Prompt tokens found in the cache (%):",
                             static_cast<double>(cached) / prompt * 100.0);
    }
    if (own.save_detailed) add_details(object, result.requests);
    const int code = publish(invocation, config, table, std::move(object), own.output_json);
    if (metrics.completed > 0) return code;
    throw Error(ErrorKind::unavailable,
                "no request was answered: " + result.requests[0].error.value_or("no reason given"));
}

}  // namespace

int run_trace(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    if (own.file.empty()) throw Error(ErrorKind::usage, "no trace: name a JSONL file");
    watch_stop_signals();
    choose_model(config);
    if (own.base_url) {
        check_writable(own.output_json);
        const auto tokenizer = Tokenizer::load(resolve_model_directory(config.model.name));
        if (tokenizer == nullptr) {
            throw Error(ErrorKind::not_found, config.model.name + ": has no tokenizer");
        }
        const std::vector<WorkItem> items = read_items(own, tokenizer->vocab_size());
        return publish_replay(invocation, nullptr, own, items, replay_on_server(items, own));
    }
    const auto engine = start_engine(config, own.output_json);
    config.kv_cache.block_size = engine->memory_plan().block_size;
    const std::vector<WorkItem> items = read_items(own, engine->model_config().vocab_size);
    return publish_replay(invocation, &config, own, items,
                          replay_on_engine(items, *engine, config, own.seed));
}

}  // namespace nvllm::bench
