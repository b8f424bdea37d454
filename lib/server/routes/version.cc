// GET /version: the program's version.
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse version_response(const RouteContext& context, const HttpRequest&) {
    return typed_response(responses::Version{context.version});
}

}  // namespace

constinit const Route routes::version = {.method = "GET",
                                         .path = "/version",
                                         .access = RouteAccess::health,
                                         .summary = "The program's version.",
                                         .schema = {.response = json_content<responses::Version>},
                                         .handle = respond_at_once<version_response>};

}  // namespace nvllm::server
