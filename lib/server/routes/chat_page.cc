// GET /: the chat page.
#include "lib/server/page/chat_page.h"

#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse page_response(const RouteContext&, const HttpRequest&) {
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.headers = {{"Content-Security-Policy", chat_page_policy()},
                        {"Cache-Control", "no-cache"},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Referrer-Policy", "no-referrer"}};
    response.body = nvllm::chat_page();
    return response;
}

schema::Json page_content() { return media_content("text/html", schema::text()); }

}  // namespace

constinit const Route routes::chat_page = {.method = "GET",
                                           .path = "/",
                                           .access = RouteAccess::open,
                                           .summary = "A chat page.",
                                           .is_page = true,
                                           .schema = {.response = page_content},
                                           .handle = respond_at_once<page_response>};

}  // namespace nvllm::server
