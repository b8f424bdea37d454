// nvllm-bench task.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/measure/multiple_choice.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::filesystem::path file;
    std::string delimiter = " ";
    std::optional<int32_t> limit;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("task");
    list.group("Questions");
    list.add("file", &Options::file,
             "Lines {\"query\": text, \"choices\": [texts], \"gold\": index from 0}; query may be "
             "called context or question, gold answer or label.",
             short_name('f'), value_name("FILE"), positional());
    list.add("target-delimiter", &Options::delimiter, "Text between a question and a choice.",
             value_name("TEXT"));
    list.add("limit", &Options::limit, "Questions to ask at most.", range(1, 1 << 30),
             default_text("all"));
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

Json result_json(const std::vector<Question>& questions,
                 const std::vector<QuestionResult>& results) {
    const ChoiceAccuracy accuracy = accuracy_of(results);
    Json object = {
        {"acc", accuracy.accuracy},        {"acc_stderr", accuracy.accuracy_error},
        {"acc_norm", accuracy.normalised}, {"acc_norm_stderr", accuracy.normalised_error},
        {"num_questions", results.size()}, {"samples", Json::array()}};
    for (size_t i = 0; i < results.size(); ++i) {
        object["samples"].push_back({{"where", questions[i].where},
                                     {"gold", questions[i].gold},
                                     {"logprobs", results[i].logprobs},
                                     {"acc", results[i].is_right ? 1 : 0},
                                     {"acc_norm", results[i].is_right_normalised ? 1 : 0}});
    }
    return object;
}

std::string table(const ChoiceAccuracy& accuracy, size_t count) {
    return fmt::format(
        "{:<10} {:>8} {:>8}\n{:<10} {:>8.4f} {:>8.4f}\n{:<10} {:>8.4f} {:>8.4f}\n"
        "{} questions\n",
        "metric", "value", "stderr", "acc", accuracy.accuracy, accuracy.accuracy_error, "acc_norm",
        accuracy.normalised, accuracy.normalised_error, count);
}

std::vector<QuestionResult> measure_with_progress(EngineLoad& load,
                                                  const std::vector<Question>& questions,
                                                  const std::string& delimiter) {
    BenchProgress progress("Questions", questions.size());
    return measure_choices(load, questions, delimiter, [&](size_t done) { progress.update(done); });
}

}  // namespace

int run_task(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    if (answered(invocation, own_options(), own, config)) return 0;
    if (own.file.empty()) throw Error(ErrorKind::usage, "no questions: name a JSONL file");
    std::vector<Question> questions = read_questions(own.file);
    if (own.limit && questions.size() > static_cast<size_t>(*own.limit)) {
        questions.resize(static_cast<size_t>(*own.limit));
    }
    choose_model(config);

    const auto engine = start_engine(config, own.output_json);
    if (engine->tokenizer() == nullptr) {
        throw Error(ErrorKind::not_found, "the model has no tokenizer");
    }
    EngineLoad load(*engine);
    const auto results = measure_with_progress(load, questions, own.delimiter);
    return publish(invocation, &config, table(accuracy_of(results), results.size()),
                   result_json(questions, results), own.output_json);
}

}  // namespace nvllm::bench
