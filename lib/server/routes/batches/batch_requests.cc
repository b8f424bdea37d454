// Owners and pages.
#include "lib/server/routes/batches/batch_requests.h"

#include <fmt/format.h>

#include <charconv>

namespace nvllm::server {

HttpResponse batches_are_off() {
    return error_response(
        {.status = 404,
         .message = "this server keeps no files and batches: start it with --batch-dir DIR",
         .code = "batches_are_off"});
}

std::string owner_of(const RouteContext& context, const HttpRequest& request) {
    const auto authorization = request.authorization();
    if (!authorization) return {};
    const auto key = context.keys.find(*authorization);
    return key ? key->name : std::string();
}

std::optional<size_t> limit_of(const HttpRequest& request, size_t most, size_t usual) {
    const auto text = request.query_value("limit");
    if (!text) return usual;
    size_t limit = 0;
    const char* end = text->data() + text->size();
    const auto [rest, wrong] = std::from_chars(text->data(), end, limit);
    if (wrong != std::errc() || rest != end || limit < 1 || limit > most) return std::nullopt;
    return limit;
}

HttpResponse wrong_limit(size_t most) {
    return error_response(
        {.message = fmt::format("'limit' must be from 1 to {}", most), .param = "limit"});
}

}  // namespace nvllm::server
