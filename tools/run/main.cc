// nvllm-run: generates from prompts, a pipe or a chat in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "lib/base/error_kinds.h"
#include "lib/base/units.h"
#include "lib/cli/commands.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/default_model.h"
#include "lib/engine/engine.h"
#include "lib/engine/input_processor.h"
#include "lib/engine/known_models.h"
#include "lib/engine/model_choice.h"
#include "lib/engine/options/engine_options.h"
#include "lib/engine/options/grammar_options.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/engine/options/placement.h"
#include "lib/engine/options/sampling_options.h"
#include "lib/server/config/shared_sections.h"
#include "tools/run/batch.h"
#include "tools/run/chat.h"
#include "tools/run/llama_cpp_flags.h"
#include "tools/run/run_options.h"
#include "tools/run/step_log.h"

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
        "  nvllm-run -m model --chat -p \"Why is the sky blue?\"\n"
        "  nvllm-run -m model                # a chat, on a terminal\n"
        "\n"
        "Settings: flag > environment NVLLM_* > --config FILE (YAML) > default.\n"
        "Exit codes: 0 ok, 64 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal,\n"
        "73 cannot create, 74 input/output, 77 does not fit, 78 bad configuration, 130 "
        "interrupted.\n",
    .sections = server::shared_sections,
};

void say(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) fmt::print(stderr, "nvllm-run: {}\n", note);
}

void choose_model(EngineConfig& config) {
    if (!config.model.name.empty()) return;
    config.model.name = require_bundled_model().string();
    fmt::print(stderr, "nvllm-run: no model was named; using the bundled demo, {}\n",
               config.model.name);
}

bool wants_chat(const RunOptions& options) {
    const bool has_input = !options.prompts.empty() || !options.files.empty() ||
                           !options.prompt_ids.empty() || options.input_format != "text";
    return !has_input && options.chat != false && ::isatty(STDIN_FILENO) != 0;
}

// What computes where, and how long it took to get there.
void print_start(const Engine& engine, const EngineConfig& config) {
    const ModelConfig& model = engine.model_config();
    const MemoryPlan& plan = engine.memory_plan();
    const StartTimings& timings = engine.start_timings();
    const std::string where =
        plan.device.empty()
            ? fmt::format("on the CPU with {} threads", engine_placement(config).num_threads())
            : "on " + plan.device;
    fmt::print(
        stderr,
        "nvllm-run: {} ({}, {}) {}, context {}; started in {:.1f} ms: config {:.1f}, weights "
        "{:.1f}, tokenizer {:.1f} beside them, worker {:.1f}\n",
        config.model.name, model.architecture, dtype_name(model.dtype), where,
        with_separators(plan.max_model_len), timings.total_ms, timings.config_ms,
        timings.weights_ms, timings.tokenizer_ms, timings.worker_ms);
}

void check_input(const RunOptions& options) {
    if (options.chat == true && (options.input_format != "text" || !options.prompt_ids.empty())) {
        throw Error(ErrorKind::usage,
                    "--chat is for texts: a line of JSON is a chat when it has \"messages\", and "
                    "token ids are taken as they are");
    }
    if (options.system_prompt && options.chat != true && options.input_format == "text" &&
        !wants_chat(options)) {
        throw Error(ErrorKind::usage,
                    "--system-prompt is for chats, and prompts are completed as they stand: add "
                    "--chat, use --input-format jsonl with \"messages\", or give no prompt on a "
                    "terminal");
    }
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
    const ModelConfig model = read_model_config(model_directory(config));
    if (model.generates) return;
    throw Error(ErrorKind::usage, fmt::format("{}: {} makes embeddings and generates no text",
                                              config.model.name, model.architecture));
}

// That of prompts that are no lines of JSON: the only one, unless one is named.
std::string adapter_of_prompts(const Engine& engine, const RunOptions& run) {
    if (run.adapter) return *run.adapter;
    const std::vector<AdapterInfo> all = engine.adapters().list();
    return all.size() == 1 ? all.front().ref.name : "";
}

int run_program(int argc, char** argv) {
    RunOptions run;
    SamplingFlags sampling;
    GrammarFlags grammar;
    EngineConfig config;
    const auto run_list = run_options();
    const auto sampling_list = sampling_options();
    const auto grammar_list = grammar_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(run_list, run);
    options.add(sampling_list, sampling);
    options.add(grammar_list, grammar);
    options.add(engine_list, config);
    for (const auto& table : {llama_cli_flags(), llama_cpp_engine_flags(), vllm_engine_flags()}) {
        options.add_foreign(table);
    }
    if (answered({kProgram, argc, argv}, options, [&] { check_input(run); })) return 0;
    const std::optional<GrammarSpec> spec = grammar.spec();
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
    say(engine.model_notes());
    say(engine.memory_plan().notices);
    const bool show_timings = run.show_timings.value_or(::isatty(STDERR_FILENO) != 0);
    if (show_timings) print_start(engine, config);
    const SamplingParams params = sampling.over(engine.input_processor().default_sampling());
    std::optional<StepLog> log;
    if (run.step_log) log.emplace(engine, *run.step_log);
    int code = 0;
    if (wants_chat(run)) {
        code = chat(engine, {params, spec, adapter_of_prompts(engine, run), run.system_prompt,
                             show_timings, run.allow_special_in_messages});
    } else {
        code = run_batch(engine, run,
                         {params, spec, adapter_of_prompts(engine, run), run.adapter.value_or("")},
                         show_timings);
    }
    engine.stop();
    if (log) log->finish();
    return code;
}

}  // namespace
}  // namespace nvllm::run

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-run", [&] { return nvllm::run::run_program(argc, argv); });
}
