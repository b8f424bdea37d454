// Comparing texts for /v1/score and /v1/rerank: what the model computes, and the scores that come
// of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/openai/score_request.h"
#include "lib/server/routes/model_request.h"

namespace nvllm::server {

// What came of a comparison.
struct ComparedTexts {
    const std::string& id;
    std::string_view model;
    std::vector<float> scores;  // one for each of the second texts
    int64_t num_tokens = 0;
};

struct Comparison {
    ScoreRequest texts;
    std::string_view id_prefix;  // "score-"
    const char* texts_field;     // the name of the second texts in the body, for faults
    std::function<std::string(const ScoreRequest& texts, const ComparedTexts& compared)> write;
};

// Computes the comparison and responds with what `write` makes of it; a request that this model
// cannot serve is responded to.
void start_comparison(RouteContext& context, const TransactionPointer& transaction,
                      const ModelRequest& asked, Comparison comparison);

}  // namespace nvllm::server
