// Options, model and output of the sub-commands.
#include "tools/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/default_model.h"
#include "lib/engine/options/placement.h"
#include "lib/measure/environment.h"

namespace nvllm::bench {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array kStandardOutput = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
constexpr const char* kPartial =
    "PARTIAL: stopped by a signal; these are figures of what was done until then.\n\n";

bool is_standard_output(const std::filesystem::path& file) {
    return std::ranges::find(kStandardOutput, file) != kStandardOutput.end();
}

}  // namespace

OptionList<ResultOptions> result_options() {
    OptionList<ResultOptions> list("bench");
    list.group("Result");
    list.add("output-json", &ResultOptions::output_json, kOutputJsonHelp, value_name("FILE"));
    list.add("seed", &ResultOptions::seed, "Of prompts, lengths and sampling.");
    list.add("repeats", &ResultOptions::repeats,
             "Measurements; the median and the range are shown.", range(1, 10000));
    return list;
}

OptionList<WorkloadOptions> workload_options() {
    OptionList<WorkloadOptions> list("workload");
    list.group("Requests");
    std::vector<std::string> names(dataset_names().begin(), dataset_names().end());
    list.add(
        "dataset-name", &WorkloadOptions::dataset,
        "random: ids drawn from the vocabulary; prefix_repetition: beginnings that come again; "
        "nano-vllm: 256 requests with 100 to 1024 tokens each way; jsonl: lines with prompt or "
        "prompt_token_ids, and max_tokens.",
        choices(names));
    list.add("dataset-path", &WorkloadOptions::path, "The file of --dataset-name jsonl.",
             value_name("FILE"));
    list.add("num-prompts", &WorkloadOptions::num_prompts, "Requests.", range(1, 10'000'000));
    list.add("input-len", &WorkloadOptions::input_len, "Tokens of a random prompt.",
             alias("random-input-len"), range(1, 1 << 24));
    list.add("output-len", &WorkloadOptions::output_len,
             "Tokens to generate; random prompts never end early.", alias("random-output-len"),
             range(1, 1 << 24));
    list.add("random-range-ratio", &WorkloadOptions::random_range_ratio,
             "Lengths are uniform from (1 - ratio) to (1 + ratio) times the given ones.",
             range(0.0, 1.0));
    list.add("prefix-len", &WorkloadOptions::prefix_len,
             "Tokens of each shared beginning of prefix_repetition.", range(1, 1 << 24));
    list.add("num-prefixes", &WorkloadOptions::num_prefixes,
             "Different beginnings of prefix_repetition.", range(1, 1'000'000));
    return list;
}

OptionList<AdapterChoice> adapter_options() {
    OptionList<AdapterChoice> list("adapters");
    list.group("Adapters of requests");
    list.add("lora-assignment", &AdapterChoice::rule,
             "Which of the adapters a request has: zipf gives the i-th the weight 1 / i^skew.",
             choices({"zipf", "random", "round-robin"}));
    list.add("lora-skew", &AdapterChoice::skew, "The exponent of zipf.", range(0.0, 10.0));
    list.add("lora-base-share", &AdapterChoice::share_without,
             "Share of requests that have no adapter.", range(0.0, 1.0));
    return list;
}

void check_adapter_choice(OptionSet& options, const AdapterChoice& choice, bool has_adapters) {
    for (const char* name : {"lora-assignment", "lora-skew", "lora-base-share"}) {
        if (options.find(name)->origin() == OptionOrigin::built_in) continue;
        if (!has_adapters) {
            throw Error(
                ErrorKind::usage,
                fmt::format("--{}: there are no adapters; name some with --lora-modules", name));
        }
        if (std::string_view(name) == "lora-skew" && choice.rule != "zipf") {
            throw Error(ErrorKind::usage, "--lora-skew: not together with --lora-assignment " +
                                              choice.rule + ", which has no skew");
        }
    }
}

double parse_request_rate(const std::string& text) {
    if (text == "inf") return std::numeric_limits<double>::infinity();
    const auto rate = parse_number(text);
    if (rate && *rate > 0.0) return *rate;
    throw Error(ErrorKind::usage,
                fmt::format("--request-rate: '{}' is not a number above 0, or inf", text));
}

void choose_model(EngineConfig& config) {
    if (!config.model.name.empty()) return;
    const auto bundled = bundled_model_directory();
    if (!bundled) {
        throw Error(ErrorKind::usage,
                    "no model: give one with -m, NVLLM_MODEL or 'model:' in --config (the bundled "
                    "demo is not installed)");
    }
    config.model.name = bundled->string();
    fmt::print(stderr, "nvllm-bench: no model was named; using the bundled demo, {}\n",
               config.model.name);
}

void refuse_adapters(const EngineConfig& config) {
    if (!config.lora.is_asked_for()) return;
    throw Error(ErrorKind::usage,
                "--enable-lora, --lora-modules, --lora-dir: this measures the model alone; "
                "throughput gives requests adapters");
}

std::unique_ptr<Engine> start_engine(const EngineConfig& config,
                                     const std::optional<std::filesystem::path>& result_file,
                                     bool uses_adapters) {
    if (!uses_adapters) refuse_adapters(config);
    watch_stop_signals();
    check_writable(result_file);
    auto engine = std::make_unique<Engine>(config);
    for (const std::string& note : engine->model_notes()) {
        fmt::print(stderr, "nvllm-bench: {}\n", note);
    }
    for (const std::string& note : engine->memory_plan().notices) {
        fmt::print(stderr, "nvllm-bench: {}\n", note);
    }
    return engine;
}

Json environment_of(const Invocation& invocation, const EngineConfig* config) {
    return environment_record(
        {.version = invocation.description.version,
         .model = config == nullptr ? "" : config->model.name,
         .arguments = invocation.arguments(),
         .threads = config == nullptr ? 0 : engine_placement(*config).num_threads()});
}

int publish(const Invocation& invocation, const EngineConfig* config, const std::string& table,
            Json result, const std::optional<std::filesystem::path>& file) {
    const auto signal = stop_signal();
    if (signal) result["partial"] = true;
    result["environment"] = environment_of(invocation, config);
    write_result(result, file);
    const std::string model = config == nullptr || config->model.name.empty()
                                  ? ""
                                  : "model: " + config->model.name + "\n";
    print_result((signal ? kPartial : "") + table + "\n" + model +
                     "environment: " + describe_environment(result["environment"]) + "\n",
                 file);
    return signal ? exit_code_for_signal(*signal) : 0;
}

void write_result(const Json& result, const std::optional<std::filesystem::path>& file) {
    if (!file) return;
    const std::string text = result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    if (is_standard_output(*file)) return write_output(text);
    write_file(*file, text);
}

void print_result(const std::string& text, const std::optional<std::filesystem::path>& file) {
    if (!file || !is_standard_output(*file)) return write_output(text);
    std::fwrite(text.data(), 1, text.size(), stderr);
}

void check_writable(const std::optional<std::filesystem::path>& file) {
    if (!file || is_standard_output(*file)) return;
    if (!std::ofstream(*file, std::ios::app)) {
        throw Error(ErrorKind::cannot_create, file->string() + ": cannot be written");
    }
}

}  // namespace nvllm::bench
