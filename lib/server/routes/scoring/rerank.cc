// POST /v1/rerank, /rerank and /v2/rerank: documents in the order in which they answer a query.
#include <algorithm>
#include <numeric>

#include "lib/server/openai/response_content.h"
#include "lib/server/routes/routes.h"
#include "lib/server/routes/scoring/comparison.h"

namespace nvllm::server {
namespace {

// The best first; of equal ones the one that was given first.
std::vector<size_t> ranked(const std::vector<float>& scores) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    return order;
}

std::string ranking_json(size_t top_n, bool return_documents, const ScoreRequest& texts,
                         const ComparedTexts& compared) {
    responses::Ranking ranking;
    ranking.id = compared.id;
    ranking.model = compared.model;
    ranking.usage.prompt_tokens = compared.num_tokens;
    std::vector<size_t> order = ranked(compared.scores);
    order.resize(std::min(order.size(), top_n));
    for (const size_t index : order) {
        responses::RankedResult& result = ranking.results.emplace_back();
        result.index = index;
        if (return_documents) result.document = responses::RankedDocument{texts.seconds[index]};
        result.relevance_score = compared.scores[index];
    }
    return json_of(ranking);
}

void start_rerank(RouteContext& context, const TransactionPointer& transaction) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    auto request = read_rerank_request(std::move(asked->body), asked->model->request_limits());
    if (!request) return refuse(transaction, request.fault());
    const auto write = [top_n = request->top_n, shows = request->return_documents](
                           const ScoreRequest& texts, const ComparedTexts& compared) {
        return ranking_json(top_n, shows, texts, compared);
    };
    start_comparison(context, transaction, *asked,
                     {std::move(request->texts), "rerank-", "documents", write});
}

constexpr Route rerank_at(std::string_view path, std::string_view summary) {
    return {.method = "POST",
            .path = path,
            .access = RouteAccess::user,
            .summary = summary,
            .is_off_loop = true,
            .has_json_body = true,
            .schema = {.response = json_content<responses::Ranking>,
                       .body = RequestBodySchema{CallKind::rerank, "RerankRequest"}},
            .handle = start_rerank};
}

}  // namespace

constinit const Route routes::rerank =
    rerank_at("/v1/rerank", "Documents in the order in which they answer a query.");
constinit const Route routes::plain_rerank = rerank_at("/rerank", "As /v1/rerank.");
constinit const Route routes::rerank_of_cohere =
    rerank_at("/v2/rerank", "As /v1/rerank, where Cohere's second interface has it.");

}  // namespace nvllm::server
