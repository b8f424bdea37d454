// nvllm-bench latency.
#include "lib/measure/latency.h"

#include <nlohmann/json.hpp>

#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    int32_t batch_size = 8;
    int32_t input_len = 32;
    int32_t output_len = 128;
    int32_t num_iters_warmup = 10;
    int32_t num_iters = 30;
    uint64_t seed = 0;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("latency");
    list.group("Batch");
    list.add("batch-size", &Options::batch_size, "Requests handed over at once.", alias("batch"),
             range(1, 65536));
    list.add("input-len", &Options::input_len, "Tokens of each prompt, drawn at random.",
             range(1, 1 << 24));
    list.add("output-len", &Options::output_len, "Tokens generated for each.", range(1, 1 << 24));
    list.add("num-iters-warmup", &Options::num_iters_warmup, "Batches before anything is timed.",
             range(0, 100000));
    list.add("num-iters", &Options::num_iters, "Batches that are timed.", alias("repeats"),
             range(1, 1'000'000));
    list.add("seed", &Options::seed, "Of prompts and sampling.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

std::vector<double> measure_with_progress(EngineLoad& load, const std::vector<WorkItem>& items,
                                          const Options& own) {
    BenchProgress progress("Batches", static_cast<size_t>(own.num_iters_warmup + own.num_iters));
    return measure_latency(load, items,
                           {.batch_size = own.batch_size,
                            .num_warmups = own.num_iters_warmup,
                            .iterations = own.num_iters,
                            .seed = own.seed,
                            .done = [&](size_t done) { progress.update(done); }});
}

}  // namespace

int run_latency(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    choose_model(config);
    config.scheduling.scheduler.max_num_seqs =
        std::max(config.scheduling.scheduler.max_num_seqs, own.batch_size);

    const auto engine = start_engine(config, own.output_json);
    const std::vector<WorkItem> items = make_workload({.num_prompts = own.batch_size,
                                                       .input_len = own.input_len,
                                                       .output_len = own.output_len,
                                                       .seed = own.seed},
                                                      {engine->model_config().vocab_size});
    EngineLoad load(*engine);
    const std::vector<double> latencies_s = measure_with_progress(load, items, own);
    nlohmann::ordered_json object = latency_json(latencies_s);
    object["batch_size"] = own.batch_size;
    object["input_len"] = own.input_len;
    object["output_len"] = own.output_len;
    return publish(invocation, &config, latency_table(latencies_s), std::move(object),
                   own.output_json);
}

}  // namespace nvllm::bench
