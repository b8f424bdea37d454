// nvllm-bench throughput.
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/engine/options/engine_options.h"
#include "lib/engine/options/speculation_options.h"
#include "lib/measure/adapter_load.h"
#include "lib/measure/serving/arrivals.h"
#include "lib/measure/throughput.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::optional<int32_t> batch;
    std::string batching = "continuous";
    int32_t num_warmups = 1;
    float temperature = 0.0f;
    std::string request_rate = "inf";
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
    list.add("request-rate", &Options::request_rate,
             "Requests per second, at the times of a Poisson process; inf: all at once.",
             value_name("RPS"));
    return list;
}

std::vector<Batching> batchings(const std::string& name) {
    if (name == "both") return {Batching::continuous, Batching::fixed};
    return {name == "static" ? Batching::fixed : Batching::continuous};
}

// Sets when each is sent, and says so by the way of batching.
std::vector<Batching> timed_batchings(const Options& own, uint64_t seed,
                                      std::vector<WorkItem>& items) {
    const double rate = parse_request_rate(own.request_rate);
    if (std::isinf(rate)) return batchings(own.batching);
    if (own.batching != "continuous") {
        throw Error(ErrorKind::usage, "--request-rate: not together with --batching " +
                                          own.batching +
                                          ", which says itself when requests are sent");
    }
    set_arrivals(items, {.request_rate = rate, .seed = seed});
    return {Batching::timed};
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
    AdapterChoice adapters;
    WorkloadOptions workload;
    ResultOptions result;
    EngineConfig config;
    const auto own_list = own_options();
    const auto adapter_list = adapter_options();
    const auto workload_list = workload_options();
    const auto result_list = result_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(own_list, own);
    options.add(adapter_list, adapters);
    options.add(workload_list, workload);
    options.add(result_list, result);
    options.add(engine_list, config);
    add_neighbour_flags(options);
    if (answered(invocation, options)) return 0;
    check_adapter_choice(options, adapters, config.lora.is_asked_for());
    choose_model(config);
    if (own.batch) config.scheduling.scheduler.max_num_seqs = *own.batch;
    workload.seed = result.seed;

    const auto engine = start_engine(config, result.output_json, true);
    std::vector<WorkItem> items =
        make_workload(workload, {engine->model_config().vocab_size, engine->tokenizer().get()});
    choose_adapters(adapters, adapter_names(*engine), result.seed, items);
    const std::vector<Batching> ways = timed_batchings(own, result.seed, items);
    EngineLoad load(*engine);
    const auto series = measure_with_progress(load, items,
                                              {.batchings = ways,
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
        const AdapterLoad loads =
            adapter_load(series.front().runs, engine->stats().scheduler.adapters);
        object["adapters"] = adapters_json(loads);
        table += adapters_table(loads);
    }
    return publish(invocation, &config, std::move(table), std::move(object), result.output_json);
}

}  // namespace nvllm::bench
