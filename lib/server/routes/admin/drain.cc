// POST /admin/drain: takes no new requests and ends.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse drain_response(const RouteContext& context, const HttpRequest&) {
    context.controls.drain();
    return json_response({{"status", "draining"}});
}

}  // namespace

constinit const Route routes::drain = {
    .method = "POST",
    .path = "/admin/drain",
    .access = RouteAccess::admin,
    .summary = "Takes no new requests and ends when all are answered.",
    .schema = {.response = any_json_content},
    .handle = respond_at_once<drain_response>};

}  // namespace nvllm::server
