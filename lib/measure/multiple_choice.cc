// Questions, pairs of tokens, and who wins.
#include "lib/measure/multiple_choice.h"

#include <algorithm>
#include <cmath>

#include "lib/base/statistics.h"
#include "lib/measure/json_fields.h"
#include "lib/measure/scoring.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {
namespace {

constexpr size_t kGroup = 64;  // questions handed over at once

const char* present(const JsonRecord& record, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (record.has(name)) return name;
    }
    return *names.begin();  // reading it says that it is missing
}

Question read_question(const JsonRecord& record) {
    Question question;
    question.where = record.where();
    question.context = record.text(present(record, {"query", "context", "question"}));
    question.choices = record.texts("choices");
    if (question.choices.size() < 2) record.fail("\"choices\" has fewer than two texts");
    for (const std::string& choice : question.choices) {
        if (choice.empty()) record.fail("\"choices\" has an empty text");
    }
    const auto last = static_cast<int64_t>(question.choices.size()) - 1;
    question.gold =
        static_cast<size_t>(record.integer(present(record, {"gold", "answer", "label"}), 0, last));
    return question;
}

// The oldest tokens go, and the context never wholly.
void fit(TokenPair& pair, size_t most) {
    if (pair.token_ids.size() <= most) return;
    const size_t surplus = pair.token_ids.size() - most;
    const size_t cut = std::min(surplus, pair.num_context - 1);
    pair.token_ids.erase(pair.token_ids.begin(),
                         pair.token_ids.begin() + static_cast<ptrdiff_t>(cut));
    pair.num_context -= cut;
}

double share(const std::vector<QuestionResult>& results, bool QuestionResult::*right,
             double& error) {
    std::vector<double> values;
    for (const QuestionResult& result : results) values.push_back(result.*right ? 1.0 : 0.0);
    error = values.empty()
                ? 0.0
                : sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
    return mean(values);
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& file) {
    std::vector<Question> questions;
    for (const JsonRecord& record : read_json_records(file)) {
        questions.push_back(read_question(record));
    }
    if (questions.empty()) {
        throw Error(ErrorKind::bad_data, file.string() + ": no question in it");
    }
    return questions;
}

TokenPair encode_pair(const Tokenizer& tokenizer, std::string context, std::string continuation) {
    const size_t end = context.find_last_not_of(" \t\n\r\f\v");
    const size_t kept = end == std::string::npos ? 0 : end + 1;
    continuation = context.substr(kept) + continuation;
    context.resize(kept);
    if (context.empty()) {
        const auto first = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
        TokenPair pair{tokenizer.encode(continuation, {.add_special_tokens = false}), 0};
        if (first) {
            pair.token_ids.insert(pair.token_ids.begin(), *first);
        }
        pair.num_context = 1;
        return pair;
    }
    TokenPair pair{tokenizer.encode(context + continuation), 0};
    pair.num_context = std::min(tokenizer.encode(context).size(), pair.token_ids.size() - 1);
    pair.num_context = std::max<size_t>(1, pair.num_context);
    return pair;
}

QuestionResult grade(const Question& question, std::vector<double> logprobs) {
    NVLLM_CHECK(logprobs.size() == question.choices.size(), "a choice without a score");
    std::vector<double> normalised;
    for (size_t i = 0; i < logprobs.size(); ++i) {
        normalised.push_back(logprobs[i] / static_cast<double>(question.choices[i].size()));
    }
    const auto winner = [](const std::vector<double>& scores) {
        return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    };
    const bool is_right = winner(logprobs) == question.gold;
    return {std::move(logprobs), is_right, winner(normalised) == question.gold};
}

std::vector<QuestionResult> measure_choices(EngineLoad& load,
                                            const std::vector<Question>& questions,
                                            const std::string& delimiter,
                                            const std::function<void(size_t)>& done) {
    const Tokenizer& tokenizer = *load.engine().tokenizer();
    const auto most = static_cast<size_t>(load.engine().memory_plan().max_model_len);
    std::vector<QuestionResult> results;
    for (size_t begin = 0; begin < questions.size(); begin += kGroup) {
        const size_t end = std::min(begin + kGroup, questions.size());
        std::vector<std::vector<int32_t>> sequences;
        std::vector<size_t> num_context;
        for (size_t q = begin; q < end; ++q) {
            for (const std::string& choice : questions[q].choices) {
                TokenPair pair = encode_pair(tokenizer, questions[q].context, delimiter + choice);
                fit(pair, most);
                num_context.push_back(pair.num_context);
                sequences.push_back(std::move(pair.token_ids));
            }
        }
        const auto scores = score_sequences(load, sequences);
        size_t next = 0;
        for (size_t q = begin; q < end; ++q) {
            std::vector<double> sums;
            for (size_t c = 0; c < questions[q].choices.size(); ++c, ++next) {
                double sum = 0.0;  // scores begin with the second token
                for (size_t t = num_context[next]; t <= scores[next].size(); ++t) {
                    sum += scores[next][t - 1].logprob;
                }
                sums.push_back(sum);
            }
            results.push_back(grade(questions[q], std::move(sums)));
        }
        if (done) done(results.size());
    }
    return results;
}

ChoiceAccuracy accuracy_of(const std::vector<QuestionResult>& results) {
    ChoiceAccuracy accuracy;
    accuracy.accuracy = share(results, &QuestionResult::is_right, accuracy.accuracy_error);
    accuracy.normalised =
        share(results, &QuestionResult::is_right_normalised, accuracy.normalised_error);
    return accuracy;
}

}  // namespace nvllm
