// Multiple choice by log-likelihood, with the arithmetic of lm-evaluation-harness.
//
// The model never answers: each choice is scored as the continuation of the question, and the one
// with the highest sum of logprobs (accuracy), or the highest sum divided by its length in bytes
// (normalised accuracy), is taken as chosen; of equals the first. lm-evaluation-harness divides by
// characters, which is the same for ASCII.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

class Tokenizer;

struct Question {
    std::string where;    // "FILE:3"
    std::string context;  // may be empty
    std::vector<std::string> choices;
    size_t gold = 0;  // the right one
};

// Lines {"query": text (or "context", "question"), "choices": [two texts or more], "gold": index
// from 0 (or "answer", "label")}. Throws not_found, io, and bad_data with file and line.
std::vector<Question> read_questions(const std::filesystem::path& file);

// Tokens of context and continuation, cut where the context ends. White space at the context's end
// belongs to the continuation; both are tokenized as one text, so that the border is where the
// model would have put it (lm_eval.api.model.TemplateLM._encode_pair).
struct TokenPair {
    std::vector<int32_t> token_ids;
    size_t num_context = 0;  // at least one: an empty context is the beginning (or end) token
};
TokenPair encode_pair(const Tokenizer& tokenizer, std::string context, std::string continuation);

struct QuestionResult {
    std::vector<double> logprobs;  // of each choice, summed over its tokens
    bool is_right = false;
    bool is_right_normalised = false;
};

struct ChoiceAccuracy {
    double accuracy = 0.0, accuracy_error = 0.0;  // standard errors of the mean
    double normalised = 0.0, normalised_error = 0.0;
};

// `delimiter` stands between context and choice. Pairs longer than the context lose their oldest
// tokens. Throws as score_sequences.
std::vector<QuestionResult> measure_choices(EngineLoad& load,
                                            const std::vector<Question>& questions,
                                            const std::string& delimiter,
                                            const std::function<void(size_t)>& done = {});

// The judgement alone: which choice wins. REQUIRES: sizes are equal.
QuestionResult grade(const Question& question, std::vector<double> logprobs);
ChoiceAccuracy accuracy_of(const std::vector<QuestionResult>& results);

}  // namespace nvllm
