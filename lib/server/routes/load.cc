// GET /load: how many requests are in flight.
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse load_response(const RouteContext& context, const HttpRequest&) {
    return typed_response(responses::Load{context.active.size()});
}

}  // namespace

constinit const Route routes::load = {.method = "GET",
                                      .path = "/load",
                                      .access = RouteAccess::metrics,
                                      .summary = "How many requests are in flight.",
                                      .schema = {.response = json_content<responses::Load>},
                                      .handle = respond_at_once<load_response>};

}  // namespace nvllm::server
