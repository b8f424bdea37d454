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

std::optional<size_t> limit_of(const HttpRequest& request, size_t most, size_t usual) {
    const auto text = request.query_value("limit");
    if (!text) return usual;
    size_t limit = 0;
    const char* end = text->data() + text->size();
    const auto [rest, wrong] = std::from_chars(text->data(), end, limit);
    if (wrong != std::errc() || rest != end || limit < 1 || limit > most) return std::nullopt;
    return limit;
}

std::optional<bool> is_ascending(const HttpRequest& request) {
    const std::string order = request.query_value("order").value_or("desc");
    if (order != "asc" && order != "desc") return std::nullopt;
    return order == "asc";
}

HttpResponse wrong_order() {
    return error_response({.message = "'order' must be asc or desc", .param = "order"});
}

HttpResponse wrong_limit(size_t most) {
    return error_response(
        {.message = fmt::format("'limit' must be from 1 to {}", most), .param = "limit"});
}

}  // namespace nvllm::server
