// nvllm-bench perplexity.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/measure/quality.h"
#include "lib/tokenizer/tokenizer.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::filesystem::path file;
    PerplexityConvention convention = PerplexityConvention::hf;
    std::optional<int32_t> context;
    std::optional<int32_t> stride;
    std::optional<int32_t> chunks;
    std::optional<std::filesystem::path> logits_file;
    bool kl_divergence = false;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    const std::vector<std::pair<std::string, PerplexityConvention>> conventions = {
        {"hf", PerplexityConvention::hf}, {"llama.cpp", PerplexityConvention::llama_cpp}};
    OptionList<Options> list("perplexity");
    list.group("Text");
    list.add("file", &Options::file, "The text, UTF-8.", short_name('f'), value_name("FILE"));
    list.add_choice("ppl-convention", &Options::convention,
                    "hf: every token of windows beside each other (GPTQ papers; with --stride the "
                    "sliding windows of transformers); llama.cpp: the second half of each window.",
                    conventions);
    list.add("ctx-size", &Options::context, "Tokens in a window.", short_name('c'),
             range(2, 1 << 24), default_text("hf: 2048, llama.cpp: 512; at most the model's own"));
    list.add("stride", &Options::stride,
             "Tokens from the beginning of one window to that of the next; hf only.",
             alias("ppl-stride"), range(1, 1 << 24), default_text("the window's length"));
    list.add("chunks", &Options::chunks, "Windows to measure at most.", range(1, 1 << 30),
             default_text("all"));
    list.group("Divergence from a base model");
    list.add("save-all-logits", &Options::logits_file,
             "Write every row of logprobs of this model (the base) to a file, or with "
             "--kl-divergence read it.",
             alias("kl-divergence-base"), value_name("FILE"));
    list.add("kl-divergence", &Options::kl_divergence,
             "Compare this model with the base whose rows are in the file; text and windows come "
             "from there.");
    list.group("Result");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

void check(const Options& own) {
    if (own.kl_divergence && !own.logits_file) {
        throw Error(ErrorKind::usage, "--kl-divergence needs --kl-divergence-base FILE");
    }
    if (own.file.empty() && !own.kl_divergence) {
        throw Error(ErrorKind::usage, "no text: give one with -f FILE");
    }
    if (!own.stride) return;
    if (own.convention != PerplexityConvention::hf) {
        throw Error(ErrorKind::usage, "--stride belongs to --ppl-convention hf");
    }
    if (own.context && *own.stride > *own.context) {
        throw Error(ErrorKind::usage, "--stride is larger than --ctx-size: tokens would be missed");
    }
}

int32_t context_of(const Options& own, const Engine& engine) {
    const int32_t most = engine.memory_plan().max_model_len;
    if (!own.context)
        return std::min(most, own.convention == PerplexityConvention::hf ? 2048 : 512);
    if (*own.context > most) {
        throw Error(ErrorKind::usage, fmt::format("--ctx-size {} is larger than the context of {}",
                                                  *own.context, most));
    }
    return *own.context;
}

std::vector<Window> read_windows(const Options& own, const Engine& engine, int32_t context) {
    const Tokenizer* tokenizer = engine.tokenizer().get();
    if (tokenizer == nullptr) throw Error(ErrorKind::not_found, "the model has no tokenizer");
    const std::vector<int32_t> tokens = tokenizer->encode(read_file(own.file));
    const std::optional<int32_t> stride =
        own.stride ? std::optional(std::min(*own.stride, context)) : std::nullopt;
    std::vector<Window> windows =
        perplexity_windows(tokens, own.convention, context, stride, added_bos(*tokenizer));
    if (windows.empty()) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} tokens are too few for a window of {}; choose a smaller "
                                "--ctx-size",
                                own.file.string(), tokens.size(), context));
    }
    if (own.chunks && windows.size() > static_cast<size_t>(*own.chunks)) {
        windows.resize(static_cast<size_t>(*own.chunks));
    }
    return windows;
}

std::string table(const PerplexityResult& result, const Options& own, int32_t context) {
    std::string text;
    for (size_t i = 0; i < result.running.size(); ++i) {
        text += fmt::format("[{}]{:.4f},", i + 1, result.running[i]);
    }
    return text + fmt::format(
                      "\nFinal estimate: PPL = {:.4f} +/- {:.5f}\n"
                      "convention {}, {} windows of at most {} tokens, {} tokens scored\n",
                      result.perplexity, result.standard_error, convention_name(own.convention),
                      result.running.size(), context, result.num_scored);
}

PerplexityResult measure_with_progress(EngineLoad& load, const std::vector<Window>& windows) {
    BenchProgress progress("Windows", windows.size());
    return measure_perplexity(load, windows, [&](size_t done) { progress.update(done); });
}

int publish_divergence(const Invocation& invocation, const EngineConfig& config, const Options& own,
                       EngineLoad& load) {
    const DivergenceReport report = measure_divergence(load, *own.logits_file, {});
    nlohmann::ordered_json object = divergence_json(report);
    object["base_file"] = own.logits_file->string();
    return publish(invocation, &config, divergence_table(report), std::move(object),
                   own.output_json);
}

}  // namespace

int run_perplexity(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    check(own);
    choose_model(config);

    const auto engine = start_engine(config, own.output_json);
    EngineLoad load(*engine);
    if (own.kl_divergence) return publish_divergence(invocation, config, own, load);
    const int32_t context = context_of(own, *engine);
    const std::vector<Window> windows = read_windows(own, *engine, context);
    if (own.logits_file) {
        BenchProgress progress("Saving windows", windows.size());
        save_logprobs(load, windows, context, *own.logits_file,
                      [&](size_t done) { progress.update(done); });
    }
    const PerplexityResult result = measure_with_progress(load, windows);

    nlohmann::ordered_json object = {{"perplexity", result.perplexity},
                                     {"perplexity_error", result.standard_error},
                                     {"mean_nll", result.mean_nll},
                                     {"ppl_convention", convention_name(own.convention)},
                                     {"context", context},
                                     {"stride", own.stride ? *own.stride : context},
                                     {"num_windows", result.running.size()},
                                     {"num_tokens", result.num_scored},
                                     {"running", result.running},
                                     {"file", own.file.string()}};
    return publish(invocation, &config, table(result, own, context), std::move(object),
                   own.output_json);
}

}  // namespace nvllm::bench
