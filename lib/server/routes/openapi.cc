// GET /openapi.json: the interface as a document.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse document_response(const RouteContext& context, const HttpRequest&) {
    HttpResponse response;
    response.body = context.openapi;
    return response;
}

schema::Json document_content() { return media_content("application/json", schema::object()); }

}  // namespace

constinit const Route routes::openapi = {.method = "GET",
                                         .path = "/openapi.json",
                                         .access = RouteAccess::open,
                                         .summary = "This interface as a document.",
                                         .schema = {.response = document_content},
                                         .handle = respond_at_once<document_response>};

}  // namespace nvllm::server
