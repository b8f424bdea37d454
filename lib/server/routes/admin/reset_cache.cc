// POST /reset_prefix_cache: forgets the cached prompts of a model, under vLLM's name.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse reset_cache_response(const RouteContext& context, const HttpRequest& request) {
    ApiError error;
    const auto model = find_ready(context.models, model_name_in_query(request), error);
    if (model == nullptr) return error_response(error);
    const CacheReset reset = model->engine()->reset_prefix_cache();
    return json_response(
        {{"status", "reset"}, {"blocks_removed", reset.removed}, {"blocks_in_use", reset.in_use}});
}

}  // namespace

constinit const Route routes::reset_prefix_cache = {
    .method = "POST",
    .path = "/reset_prefix_cache",
    .access = RouteAccess::admin,
    .summary = "Forgets the cached prompts that no request uses at present.",
    .is_off_loop = true,
    .schema = {.response = any_json_content, .query_parameter = "model"},
    .handle = respond_at_once<reset_cache_response>};

}  // namespace nvllm::server
