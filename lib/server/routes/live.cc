// GET /live: whether the process responds.
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse live_response(const RouteContext&, const HttpRequest&) {
    return typed_response(responses::State{.status = "live", .model = {}, .seconds = {}});
}

}  // namespace

constinit const Route routes::live = {.method = "GET",
                                      .path = "/live",
                                      .access = RouteAccess::health,
                                      .summary = "200 while the process answers.",
                                      .is_probe = true,
                                      .schema = {.response = json_content<responses::State>},
                                      .handle = respond_at_once<live_response>};

}  // namespace nvllm::server
