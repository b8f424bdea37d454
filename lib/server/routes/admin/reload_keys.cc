// POST /admin/keys/reload: reads the key file again.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse reload_keys_response(const RouteContext& context, const HttpRequest&) {
    context.controls.reload_keys();
    return json_response({{"status", "reloaded"}, {"keys", context.keys.size()}});
}

}  // namespace

constinit const Route routes::reload_keys = {.method = "POST",
                                             .path = "/admin/keys/reload",
                                             .access = RouteAccess::admin,
                                             .summary = "Reads the key file again.",
                                             .is_off_loop = true,
                                             .schema = {.response = any_json_content},
                                             .handle = respond_at_once<reload_keys_response>};

}  // namespace nvllm::server
