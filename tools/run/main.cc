// nvllm-run: generates from prompts, a pipe or a chat in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/commands.h"
#include "lib/base/error_kinds.h"
#include "lib/base/main_guard.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/engine/default_model.h"
#include "lib/engine/engine.h"
#include "lib/engine/option_lists.h"
#include "tools/run/batch.h"
#include "tools/run/chat.h"
#include "tools/run/run_options.h"

namespace nvllm::run {
namespace {

const ProgramDescription kProgram = {
    .name = "nvllm-run",
    .version = NVLLM_VERSION,
    .summary =
        "Generates text from a Hugging Face checkpoint. Generated text goes to standard output, "
        "everything else to "
        "standard error.",
    .examples =
        "  nvllm-run -m model -p \"Once upon a time\" -n 100\n"
        "  cat question.txt | nvllm-run -m model --temperature 0\n"
        "  nvllm-run -m model --input-format jsonl --output-format jsonl < requests.jsonl\n"
        "  nvllm-run -m model                # a chat, on a terminal\n"
        "\n"
        "Settings: flag > environment NVLLM_* > --config FILE (YAML) > default.\n"
        "Exit codes: 0 ok, 64 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal,\n"
        "73 cannot create, 74 input/output, 77 does not fit, 78 bad configuration, 130 "
        "interrupted.\n",
};

void say(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) fmt::print(stderr, "nvllm-run: {}\n", note);
}

void choose_model(EngineConfig& config) {
    if (!config.model.empty()) return;
    config.model = require_bundled_model().string();
    fmt::print(stderr, "nvllm-run: no model was named; using the bundled demo, {}\n", config.model);
}

bool wants_chat(const RunOptions& options) {
    const bool has_input = !options.prompts.empty() || !options.files.empty() ||
                           !options.prompt_ids.empty() || options.input_format != "text";
    return !has_input && ::isatty(STDIN_FILENO) != 0;
}

void print_start_timings(const StartTimings& timings) {
    fmt::print(stderr,
               "nvllm-run: started in {:.1f} ms: config {:.1f}, weights {:.1f}, tokenizer {:.1f} "
               "beside them, worker {:.1f}\n",
               timings.total_ms, timings.config_ms, timings.weights_ms, timings.tokenizer_ms,
               timings.worker_ms);
}

void check_inspection(const RunOptions& options) {
    if (options.inspect_dump_step && !options.inspect_dump) {
        throw Error(ErrorKind::usage, "--inspect-dump-step says when; --inspect-dump says where");
    }
    if (options.inspect_dump && wants_chat(options)) {
        throw Error(ErrorKind::usage,
                    "--inspect-dump is for batches; a chat can be looked into with "
                    "--inspect-socket");
    }
}

// Before anything is loaded.
void require_generation(const EngineConfig& config) {
    const ModelConfig model = read_model_config(resolve_model_directory(config.model));
    if (model.generates) return;
    throw Error(ErrorKind::usage, fmt::format("{}: {} makes embeddings and generates no text",
                                              config.model, model.architecture));
}

int run_program(int argc, char** argv) {
    RunOptions run;
    SamplingFlags sampling;
    EngineConfig config;
    const auto run_list = run_options();
    const auto sampling_list = sampling_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(run_list, run);
    options.add(sampling_list, sampling);
    options.add(engine_list, config);
    if (answered({kProgram, argc, argv}, options, [&] { check_inspection(run); })) return 0;
    choose_model(config);
    require_generation(config);
    if (run.plan) {
        const MemoryPlan plan = Engine::plan(config);
        say(plan.notices);
        if (!plan.shortage.empty()) throw Error(ErrorKind::does_not_fit, plan.shortage);
        write_output(plan.summary() + "\n");
        return 0;
    }
    watch_stop_signals();
    Engine engine(config);
    say(engine.model_config().notes);
    say(engine.memory_plan().notices);
    const bool show_timings = run.show_timings.value_or(::isatty(STDERR_FILENO) != 0);
    if (show_timings) print_start_timings(engine.start_timings());
    const SamplingParams params = sampling.over(engine.input_processor().default_sampling());
    if (wants_chat(run)) {
        return chat(engine,
                    {params, run.system_prompt, show_timings, run.allow_special_in_messages});
    }
    return run_batch(engine, run, params, show_timings);
}

}  // namespace
}  // namespace nvllm::run

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-run", [&] { return nvllm::run::run_program(argc, argv); });
}
