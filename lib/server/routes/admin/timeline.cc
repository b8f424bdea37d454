// GET /admin/timeline: recent requests and steps as a trace.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse timeline_response(const RouteContext& context, const HttpRequest& request) {
    ApiError error;
    const auto model = find_ready(context.models, model_name_in_query(request), error);
    if (model == nullptr) return error_response(error);
    HttpResponse response;
    response.body = model->timeline().chrome_trace();
    return response;
}

}  // namespace

constinit const Route routes::timeline = {
    .method = "GET",
    .path = "/admin/timeline",
    .access = RouteAccess::admin,
    .summary = "What happened lately, as a trace for Perfetto; ?model=NAME.",
    .is_off_loop = true,
    .schema = {.response = any_json_content},
    .handle = respond_at_once<timeline_response>};

}  // namespace nvllm::server
