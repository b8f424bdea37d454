// nvllm-bench grammar.
#include <nlohmann/json.hpp>

#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/measure/grammar_cost.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::filesystem::path file;
    std::string model;
    GrammarCostOptions cost;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("grammar");
    list.group("Schemas");
    list.add("file", &Options::file,
             "Lines {\"schema\": JSON schema, \"answers\": [valid documents]}, or of the "
             "JSON-Schema-Test-Suite.",
             short_name('f'), value_name("FILE"), positional());
    list.add("model", &Options::model, "The model whose tokens are meant; no weight is read.",
             short_name('m'), value_name("MODEL"), default_text("the bundled demo"),
             refuses_empty(), named_once());
    list.group("Measurement");
    list.add("walks", nested(&Options::cost, &GrammarCostOptions::walks),
             "Answers of each schema whose tokens are drawn among those allowed, each as likely as "
             "the others.",
             range(0, 1 << 20));
    list.add("walk-tokens", nested(&Options::cost, &GrammarCostOptions::walk_tokens),
             "Tokens of such an answer at most.", range(1, 1 << 20));
    list.add("repeats", nested(&Options::cost, &GrammarCostOptions::repeats),
             "Readings of each document.", range(1, 100000));
    list.add("seed", nested(&Options::cost, &GrammarCostOptions::seed), "Of what is drawn.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

}  // namespace

int run_grammar(const Invocation& invocation) {
    Options own;
    const auto own_list = own_options();
    OptionSet options;
    options.add(own_list, own);
    if (answered(invocation, options)) return 0;
    check_writable(own.output_json);
    const auto cases = read_grammar_cases(own.file);
    check_answers(cases, own.cost);
    EngineConfig config;  // names the model
    config.model.name = own.model;
    choose_model(config);
    const auto directory = resolve_model_directory(config.model.name);
    const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::load(directory);
    if (tokenizer == nullptr)
        throw Error(ErrorKind::not_found, directory.string() + ": has no tokenizer");
    std::vector<GrammarCost> costs;
    {
        BenchProgress progress("Schemas", cases.size());
        costs = measure_grammars(tokenizer, tokenizer->vocab_size(), cases, own.cost,
                                 [&](size_t done) { progress.update(done); });
    }
    nlohmann::ordered_json object = grammar_cost_json(costs);
    object["vocab_size"] = tokenizer->vocab_size();
    return publish(invocation, &config, grammar_cost_table(costs), std::move(object),
                   own.output_json);
}

}  // namespace nvllm::bench
