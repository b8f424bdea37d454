// GET /metrics: all metrics, as Prometheus scrapes them.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse metrics_response(const RouteContext& context, const HttpRequest&) {
    HttpResponse response;
    response.content_type = ServerMetrics::kContentType;
    response.body = context.metrics.text();
    return response;
}

schema::Json metrics_content() { return media_content("text/plain", schema::text()); }

}  // namespace

constinit const Route routes::metrics = {.method = "GET",
                                         .path = "/metrics",
                                         .access = RouteAccess::metrics,
                                         .summary = "Prometheus metrics.",
                                         .is_off_loop = true,
                                         .schema = {.response = metrics_content},
                                         .handle = respond_at_once<metrics_response>};

}  // namespace nvllm::server
