// nvllm-bench startup: runs itself again and again.
#include "lib/measure/startup.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/clock.h"
#include "lib/cli/main_guard.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    int32_t prompt_tokens = 1;
    int32_t num_warmups = 1;
    int32_t repeats = 5;
    bool once = false;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("startup");
    list.group("Start");
    list.add("prompt-tokens", &Options::prompt_tokens, "Tokens of the first prompt.",
             range(1, 1 << 24));
    list.add("num-warmups", &Options::num_warmups,
             "Starts before those that count: with none, the first may have to read the disk.",
             range(0, 1000));
    list.add("repeats", &Options::repeats, "Starts that count, each in a fresh process.",
             range(1, 10000));
    list.add("once", &Options::once,
             "Start in this process, print {\"main_s\", \"ready_ms\", \"first_token_ms\"} and "
             "leave: what the fresh processes do.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

int start_once(const EngineConfig& config, int32_t prompt_tokens, double main_s) {
    refuse_adapters(config);
    const MonotonicClock clock;
    Engine engine(config);
    const double ready_s = clock.now_s();
    EngineLoad load(engine);
    const std::vector<WorkItem> items =
        make_workload({.num_prompts = 1, .input_len = prompt_tokens, .output_len = 1},
                      {engine.model_config().vocab_size});
    const LoadResult result = load.run(items, {});
    if (result.requests[0].error) throw Error(ErrorKind::internal, *result.requests[0].error);
    const double end_s = clock.now_s();
    write_output(
        fmt::format("{{\"main_s\": {:.6f}, \"ready_ms\": {:.4f}, \"first_token_ms\": "
                    "{:.4f}}}\n",
                    main_s, (ready_s - main_s) * 1000.0, (end_s - main_s) * 1000.0));
    return 0;
}

// This command again, with the model that was chosen and --once.
std::vector<std::string> child_arguments(const Invocation& invocation, const EngineConfig& config) {
    std::vector<std::string> arguments = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                          "startup"};
    for (int i = 1; i < invocation.argc; ++i) arguments.emplace_back(invocation.argv[i]);
    arguments.insert(arguments.end(), {"--model", config.model.name, "--once"});
    return arguments;
}

// Those until a signal came, which may have met the measured process as well. Throws Interrupted
// when there is none.
std::vector<StartupSample> measure_starts(const std::vector<std::string>& arguments,
                                          const Options& own) {
    const int32_t total = own.num_warmups + own.repeats;
    BenchProgress progress("Starts", static_cast<size_t>(total));
    std::vector<StartupSample> samples;
    for (int32_t i = 0; i < total && !stop_signal(); ++i) {
        progress.update(static_cast<size_t>(i));
        try {
            const StartupSample sample = measure_startup(arguments);
            if (i >= own.num_warmups) samples.push_back(sample);
        } catch (const Error&) {
            if (!stop_signal()) throw;
        }
    }
    if (const auto signal = stop_signal(); signal && samples.empty()) throw Interrupted{*signal};
    return samples;
}

}  // namespace

int run_startup(const Invocation& invocation) {
    const double main_s = MonotonicClock().now_s();
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    choose_model(config);
    if (own.once) return start_once(config, own.prompt_tokens, main_s);

    watch_stop_signals();
    check_writable(own.output_json);
    const std::vector<std::string> arguments = child_arguments(invocation, config);
    const std::vector<StartupSample> samples = measure_starts(arguments, own);
    nlohmann::ordered_json object = startup_json(samples);
    object["prompt_tokens"] = own.prompt_tokens;
    return publish(invocation, &config, startup_table(samples), std::move(object), own.output_json);
}

}  // namespace nvllm::bench
