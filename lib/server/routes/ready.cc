// GET /ready, /health and /ping: whether requests are served.
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse not_ready(const char* code, Maybe<std::string> model = {},
                       Maybe<double> seconds = {}) {
    HttpResponse response = typed_response(responses::State{code, model, seconds}, 503);
    response.headers.push_back({"Retry-After", "1"});
    return response;
}

HttpResponse ready_response(const RouteContext& context, const HttpRequest&) {
    if (context.controls.is_shutting_down()) return not_ready("shutting_down");
    for (const auto& model : context.models.all()) {
        if (model->state() == ModelState::failed) return not_ready("model_failed", model->name());
        if (model->state() == ModelState::loading) return not_ready("loading", model->name());
        const EngineHealth health = model->engine()->health();
        if (health.state == EngineState::stalled) {
            return not_ready("engine_stalled", model->name(), health.seconds_since_heartbeat);
        }
        if (health.state == EngineState::failed) return not_ready("engine_dead", model->name());
    }
    return typed_response(responses::State{.status = "ready", .model = {}, .seconds = {}});
}

constexpr Route ready_route(std::string_view path, std::string_view summary) {
    return {.method = "GET",
            .path = path,
            .access = RouteAccess::health,
            .summary = summary,
            .is_probe = true,
            .schema = {.response = json_content<responses::State>,
                       .unavailable = "Not yet, or no longer; status says why."},
            .handle = respond_at_once<ready_response>};
}

}  // namespace

constinit const Route routes::ready =
    ready_route("/ready", "200 when requests are served, else 503 and what is going on.");
constinit const Route routes::health = ready_route("/health", "The same.");
constinit const Route routes::ping = ready_route("/ping", "The same, as SageMaker asks.");

}  // namespace nvllm::server
