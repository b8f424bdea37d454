// POST /v1/score and /score: how much pairs of texts have to do with each other.
#include <ctime>

#include "lib/server/openai/response_content.h"
#include "lib/server/routes/routes.h"
#include "lib/server/routes/scoring/comparison.h"

namespace nvllm::server {
namespace {

std::string scores_json(const ScoreRequest&, const ComparedTexts& compared) {
    responses::Scores scores;
    scores.id = compared.id;
    scores.created = std::time(nullptr);
    scores.model = compared.model;
    for (size_t i = 0; i < compared.scores.size(); ++i) {
        scores.data.push_back({i, {}, compared.scores[i]});
    }
    scores.usage.prompt_tokens = compared.num_tokens;
    return json_of(scores);
}

void start_score(RouteContext& context, const TransactionPointer& transaction) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    auto request = read_score_request(std::move(asked->body), asked->model->request_limits());
    if (!request) return refuse(transaction, request.fault());
    start_comparison(context, transaction, *asked,
                     {std::move(*request), "score-", "text_2", scores_json});
}

constexpr RouteSchema kSchema = {.response = json_content<responses::Scores>,
                                 .body = RequestBodySchema{CallKind::score, "ScoreRequest"}};

}  // namespace

constinit const Route routes::score = {.method = "POST",
                                       .path = "/v1/score",
                                       .access = RouteAccess::user,
                                       .summary = "A score for each pair of texts.",
                                       .is_off_loop = true,
                                       .has_json_body = true,
                                       .schema = kSchema,
                                       .handle = start_score};

constinit const Route routes::plain_score = {.method = "POST",
                                             .path = "/score",
                                             .access = RouteAccess::user,
                                             .summary = "As /v1/score.",
                                             .is_off_loop = true,
                                             .has_json_body = true,
                                             .schema = kSchema,
                                             .handle = start_score};

}  // namespace nvllm::server
