// nvllm-bench micro.
#include "lib/measure/kernels/micro.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/cli/main_guard.h"
#include "lib/measure/environment.h"
#include "lib/measure/number_list.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;
constexpr int32_t kMaxTokens = 1 << 24;

struct Options {
    std::string n_prompt = "512";
    std::string n_gen = "128";
    std::vector<std::string> pg;
    std::string n_depth = "0";
    int32_t repetitions = 5;
    bool warmup = true;
    std::string format = "md";
    uint64_t seed = 0;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("micro");
    list.group("Tests (numbers may be lists and ranges: 128,512 or 128-512+128 or 1-8*2)");
    list.add("n-prompt", &Options::n_prompt, "Prompt lengths; 0: none.", short_name('p'),
             value_name("LIST"));
    list.add("n-gen", &Options::n_gen, "Tokens generated one after the other; 0: none.",
             short_name('n'), value_name("LIST"));
    list.add("pg", &Options::pg, "A prompt and generation after it, timed together, as PP,TG.",
             value_name("PP,TG"));
    list.add("n-depth", &Options::n_depth, "Tokens in the cache before each test.", short_name('d'),
             value_name("LIST"));
    list.add("repetitions", &Options::repetitions, "Samples of each test.", short_name('r'),
             alias("repeats"), range(1, 100000));
    list.add("warmup", &Options::warmup, "Run each test once more, before, untimed.");
    list.add("output", &Options::format, "What is printed.", short_name('o'),
             choices({"md", "json", "jsonl", "csv"}));
    list.add("seed", &Options::seed, "Of the prompts.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

MicroTest parse_pair(const std::string& text) {
    const std::vector<int32_t> numbers = parse_number_list(text, "--pg", kMaxTokens);
    if (numbers.size() != 2 || numbers[0] == 0 || numbers[1] == 0) {
        throw Error(ErrorKind::usage,
                    fmt::format("--pg: '{}' is not two counts such as 512,128", text));
    }
    return {.num_prompt = numbers[0], .num_generated = numbers[1]};
}

std::vector<MicroTest> tests_of(const Options& own) {
    MicroTestLists lists;
    lists.prompts = parse_number_list(own.n_prompt, "--n-prompt", kMaxTokens);
    lists.generated = parse_number_list(own.n_gen, "--n-gen", kMaxTokens);
    lists.depths = parse_number_list(own.n_depth, "--n-depth", kMaxTokens);
    for (const std::string& pair : own.pg) lists.together.push_back(parse_pair(pair));
    const std::vector<MicroTest> tests = micro_tests(lists);
    if (tests.empty()) throw Error(ErrorKind::usage, "no test is left; give -p, -n or --pg");
    return tests;
}

MicroSetting setting_of(const Engine& engine, const EngineConfig& config, const Json& environment) {
    const ModelConfig& model = engine.model_config();
    return {
        .version = environment["version"].get<std::string>(),
        .model = config.model.name,
        .cpu = environment["cpu"].is_string() ? environment["cpu"].get<std::string>() : "",
        .type = model.model_type + " " + dtype_name(model.dtype),
        .model_bytes = engine.memory_plan().weight_bytes,
        .num_parameters = model.estimated_parameters(),
        .batch_tokens = engine.memory_plan().max_num_batched_tokens,
        .threads = environment["threads"].get<int32_t>(),
        .cache_type = config.model.dtype == "auto" ? dtype_name(model.dtype) : config.model.dtype};
}

std::string json_rows(const std::vector<Json>& rows, bool one_a_line) {
    if (!one_a_line) return Json(rows).dump(2) + "\n";
    std::string text;
    for (const Json& row : rows) text += row.dump() + "\n";
    return text;
}

// Those that were measured until a signal came. Throws Interrupted when there is none.
std::vector<MicroResult> measure_all(EngineLoad& load, const std::vector<MicroTest>& tests,
                                     const Options& own) {
    const auto samples = static_cast<size_t>(own.repetitions + (own.warmup ? 1 : 0));
    BenchProgress progress("Samples", tests.size() * samples);
    size_t num_done = 0;
    std::vector<MicroResult> results;
    for (const MicroTest& test : tests) {
        try {
            results.push_back(measure_micro(load, test, own.repetitions, own.warmup, own.seed,
                                            [&] { progress.update(++num_done); }));
        } catch (const Interrupted&) {
            if (results.empty()) throw;
        }
        if (stop_signal()) break;
    }
    return results;
}

}  // namespace

int run_micro(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    const std::vector<MicroTest> tests = tests_of(own);
    choose_model(config);
    // How the depth is kept; without one, blocks are used again instead of ever new ones.
    config.kv_cache.cache.enable_prefix_caching =
        std::ranges::any_of(tests, [](const MicroTest& test) { return test.depth > 0; });
    const Json environment = environment_of(invocation, &config);

    const auto engine = start_engine(config, own.output_json);
    const MicroSetting setting = setting_of(*engine, config, environment);
    EngineLoad load(*engine);
    const std::vector<MicroResult> results = measure_all(load, tests, own);
    std::vector<Json> rows;
    for (const MicroResult& result : results) rows.push_back(micro_json(result, setting));
    Json object;
    object["tests"] = rows;
    if (own.format == "md") {
        return publish(invocation, &config, micro_markdown(results, setting), std::move(object),
                       own.output_json);
    }
    const auto signal = stop_signal();
    if (signal) object["partial"] = true;
    object["environment"] = environment;
    write_result(object, own.output_json);
    print_result(
        own.format == "csv" ? micro_csv(results, setting) : json_rows(rows, own.format == "jsonl"),
        own.output_json);
    if (!signal) return 0;
    fmt::print(stderr, "nvllm-bench: stopped by a signal: not all tests have all their samples\n");
    return exit_code_for_signal(*signal);
}

}  // namespace nvllm::bench
