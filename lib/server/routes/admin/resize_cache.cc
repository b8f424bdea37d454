// POST /admin/cache/resize: changes the size of a model's key-value cache.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse resize_cache_response(const RouteContext& context, const HttpRequest& request) {
    const auto body = read_body(request, context.config);
    if (!body) return fault_response(body.fault());
    const auto share = body->is_object() ? body->value("share", nlohmann::ordered_json()) : nullptr;
    if (!share.is_number()) {
        return error_response({.message =
                                   "'share' must be a number above 0 and at most 1: the part "
                                   "of the planned cache to keep",
                               .param = "share"});
    }
    ApiError error;
    const auto model = find_ready(context.models, model_name_in(*body), error);
    if (model == nullptr) return error_response(error);
    model->engine()->resize_cache(share.get<double>());
    return json_response(
        {{"status", "resized"}, {"blocks_total", model->engine()->stats().cache.blocks.total}});
}

}  // namespace

constinit const Route routes::resize_cache = {
    .method = "POST",
    .path = "/admin/cache/resize",
    .access = RouteAccess::admin,
    .summary = "Changes the key-value cache to a share of its plan.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = any_json_content},
    .handle = respond_at_once<resize_cache_response>};

}  // namespace nvllm::server
