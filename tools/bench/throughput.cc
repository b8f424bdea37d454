// nvllm-bench throughput.
#include <nlohmann/json.hpp>

#include "lib/engine/options/engine_options.h"
#include "lib/engine/options/speculation_options.h"
#include "lib/measure/adapter_load.h"
#include "lib/measure/throughput.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::optional<int32_t> batch;
    std::string batching = "continuous";
    int32_t num_warmups = 1;
    float temperature = 0.0f;
    AdapterChoice adapters;
};

OptionList<Options> own_options() {
    OptionList<Options> list("throughput");
    list.group("Batching");
    list.add("batch", &Options::batch, "Sequences computed at once; the same as --max-num-seqs.",
             range(1, 65536), default_text("--max-num-seqs"));
    list.add(
        "batching", &Options::batching,
        "continuous: a finished sequence's place is taken in the next step; static: the next "
        "batch begins when all of this one have finished; both: one after the other, in turns.",
        choices({"continuous", "static", "both"}));
    list.add("num-warmups", &Options::num_warmups, "Short requests before anything is timed.",
             range(0, 10000));
    list.add("temperature", &Options::temperature, "0: always the likeliest token.",
             range(0.0, 2.0));
    list.group("Adapters of requests");
    list.add("lora-assignment", nested(&Options::adapters, &AdapterChoice::rule),
             "Which of the adapters a request has: zipf gives the i-th the weight 1 / i^skew.",
             choices({"zipf", "random", "round-robin"}));
    list.add("lora-skew", nested(&Options::adapters, &AdapterChoice::skew), "The exponent of zipf.",
             range(0.0, 10.0));
    list.add("lora-base-share", nested(&Options::adapters, &AdapterChoice::share_without),
             "Share of requests that have no adapter.", range(0.0, 1.0));
    return list;
}

std::vector<Batching> batchings(const std::string& name) {
    if (name == "both") return {Batching::continuous, Batching::fixed};
    return {name == "static" ? Batching::fixed : Batching::continuous};
}

// What "synthetic" proposes it must have seen.
bool needs_answers(const EngineConfig& config) {
    return speculation_settings(config.speculation).config.method == "synthetic";
}

std::vector<ThroughputSeries> measure_with_progress(EngineLoad& load,
                                                    const std::vector<WorkItem>& items,
                                                    ThroughputOptions options) {
    const auto num_runs = static_cast<int64_t>(options.batchings.size()) * options.repeats;
    BenchProgress progress("Tokens", static_cast<size_t>(total_tokens(items) * num_runs));
    options.done = [&](int64_t done) { progress.update(static_cast<size_t>(done)); };
    return measure_throughput(load, items, options);
}

std::vector<std::string> adapter_names(const Engine& engine) {
    std::vector<std::string> names;
    for (const AdapterInfo& adapter : engine.adapters().list()) names.push_back(adapter.ref.name);
    return names;
}

}  // namespace

int run_throughput(const Invocation& invocation) {
    Options own;
    WorkloadOptions workload;
    ResultOptions result;
    EngineConfig config;
    const auto own_list = own_options();
    const auto workload_list = workload_options();
    const auto result_list = result_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(own_list, own);
    options.add(workload_list, workload);
    options.add(result_list, result);
    options.add(engine_list, config);
    add_neighbour_flags(options);
    if (answered(invocation, options)) return 0;
    choose_model(config);
    if (own.batch) config.scheduling.scheduler.max_num_seqs = *own.batch;
    workload.seed = result.seed;

    const auto engine = start_engine(config, result.output_json, true);
    std::vector<WorkItem> items =
        make_workload(workload, {engine->model_config().vocab_size, engine->tokenizer().get()});
    choose_adapters(own.adapters, adapter_names(*engine), result.seed, items);
    EngineLoad load(*engine);
    const auto series = measure_with_progress(load, items,
                                              {.batchings = batchings(own.batching),
                                               .batch = config.scheduling.scheduler.max_num_seqs,
                                               .repeats = result.repeats,
                                               .num_warmups = own.num_warmups,
                                               .learns_answers = needs_answers(config),
                                               .temperature = own.temperature,
                                               .seed = result.seed});
    nlohmann::ordered_json object = throughput_json(series);
    object["batch"] = config.scheduling.scheduler.max_num_seqs;
    object["dataset_name"] = workload.dataset;
    object["seed"] = result.seed;
    std::string table = throughput_table(series);
    if (config.lora.is_asked_for()) {
        const AdapterLoad adapters =
            adapter_load(series.front().runs, engine->stats().scheduler.adapters);
        object["adapters"] = adapters_json(adapters);
        table += adapters_table(adapters);
    }
    return publish(invocation, &config, std::move(table), std::move(object), result.output_json);
}

}  // namespace nvllm::bench
