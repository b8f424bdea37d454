// nvllm-bench kernels.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/types.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/device_choice.h"
#include "lib/engine/known_models.h"
#include "lib/engine/options/engine_options.h"
#include "lib/measure/kernels/kernel_measure.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::string model;
    std::string dtype = "bfloat16";
    std::string device = "cpu";
    int32_t tokens = 512;
    int32_t sequences = 8;
    int32_t context = 1024;
    int32_t threads = 0;
    int32_t repeats = 20;
    uint64_t working_set = uint64_t{512} << 20;
    uint64_t probe_bytes = uint64_t{1} << 30;
    std::string filter;
    uint64_t seed = 0;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("kernels");
    list.group("Ops");
    list.add("model", &Options::model,
             "Take the shapes of this model's config.json; no weight is read.", short_name('m'),
             value_name("MODEL"), default_text("Llama-3.2-1B's"), refuses_empty(), named_once());
    list.add("dtype", &Options::dtype, "Type of weights and cache; auto: the model's.",
             choices(precision_words()));
    list.add("tokens", &Options::tokens, "Rows of prefill.", range(1, 1 << 16));
    list.add("sequences", &Options::sequences, "Sequences of attention in decode.", range(1, 4096));
    list.add("context", &Options::context, "Cached tokens of each of them.", range(1, 1 << 20));
    list.add("filter", &Options::filter, "Only ops whose name holds this.", value_name("TEXT"));
    list.group("Measurement");
    list.add("device", &Options::device, "Where to compute: cpu, cuda, cuda:1.",
             words({"cpu", "cuda"}));
    list.add("threads", &Options::threads, "Compute threads.", short_name('t'), range(0, 1024),
             default_text("one for each physical core"));
    list.add("repeats", &Options::repeats, "Samples of each op.", range(1, 100000));
    list.add("working-set", &Options::working_set,
             "Operands are taken in turn from copies of this size together, so that no cache holds "
             "them.",
             counts_bytes(), range(1, int64_t{1} << 40));
    list.add("probe-bytes", &Options::probe_bytes, "Buffer of the bandwidth probe.", counts_bytes(),
             range(1 << 20, int64_t{1} << 40));
    list.add("seed", &Options::seed, "Of the operands.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

KernelShapes shapes_of(const Options& own) {
    KernelShapes shapes;
    shapes.dtype = dtype_from_name(own.dtype).value_or(DType::bf16);
    if (!own.model.empty()) {
        const ModelConfig config = read_model_config(resolve_model_directory(own.model));
        shapes.hidden = config.hidden_size;
        shapes.intermediate = config.intermediate_size;
        shapes.heads = config.num_heads;
        shapes.kv_heads = config.num_kv_heads;
        shapes.head_dim = config.head_dim;
        if (own.dtype == "auto") shapes.dtype = config.dtype;
    }
    shapes.prefill_tokens = own.tokens;
    shapes.decode_sequences = own.sequences;
    shapes.context = own.context;
    shapes.working_set_bytes = own.working_set;
    shapes.seed = own.seed;
    return shapes;
}

std::vector<KernelMeasurement> measure_with_progress(KernelOptions options) {
    std::optional<BenchProgress> progress;  // once it is known how many ops there are
    options.done = [&](size_t done, size_t total) {
        if (!progress) progress.emplace("Ops", total);
        progress->update(done);
    };
    return measure_kernels(options);
}

}  // namespace

int run_kernels(const Invocation& invocation) {
    Options own;
    const auto own_list = own_options();
    OptionSet options;
    options.add(own_list, own);
    if (answered(invocation, options)) return 0;
    check_writable(own.output_json);
    watch_stop_signals();
    KernelOptions measure{.shapes = shapes_of(own),
                          .repeats = own.repeats,
                          .probe_bytes = own.probe_bytes,
                          .filter = own.filter,
                          .device = choose_device(own.device).choice};
    measure.threads =
        own.threads > 0 ? own.threads : environment_of(invocation, nullptr)["threads"].get<int>();
    const auto measurements = measure_with_progress(measure);
    EngineConfig config;  // for the environment record
    config.model.name = own.model;
    config.compute.placement.num_threads = own.threads;
    return publish(invocation, &config, kernels_table(measurements), kernels_json(measurements),
                   own.output_json);
}

}  // namespace nvllm::bench
