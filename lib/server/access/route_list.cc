// Compares methods and paths with those of the routes.
#include "lib/server/access/route_list.h"

#include <fmt/format.h>

namespace nvllm::server {
namespace {

bool matches(const Route& route, std::string_view path) {
    if (!route.path.ends_with("/*")) {
        const bool has_slash = path.size() > 2 && path.ends_with('/');
        return route.path == (has_slash ? path.substr(0, path.size() - 1) : path);
    }
    const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
    return path.size() > prefix.size() && path.starts_with(prefix);
}

// Routes of the APIs that are not here, and the nearest that is.
struct Absent {
    std::string_view begins;
    std::string_view nearest;
};
constexpr Absent kAbsent[] = {
    {"/v1/assistants", "/v1/responses"},        {"/v1/threads", "/v1/responses"},
    {"/v1/conversations", "/v1/responses"},     {"/v1/realtime", "/v1/responses"},
    {"/v1/chat/completions/", "/v1/responses"}, {"/v1/edits", "/v1/completions"},
    {"/v1/engines/", "/v1/completions"},        {"/v1/complete", "/v1/messages"},
    {"/v1/messages/batches", "/v1/messages"},   {"/api/chat", "/v1/chat/completions"},
    {"/api/generate", "/v1/completions"},       {"/api/embed", "/v1/embeddings"},
};

bool is_suggested(const Route* route) {
    return route != nullptr && route->access < RouteAccess::admin && !route->is_page;
}

}  // namespace

const Route* RouteList::find(std::string_view path) const {
    for (const Route* route : routes_) {
        if (matches(*route, path)) return route;
    }
    return nullptr;
}

const Route* RouteList::find(std::string_view method, std::string_view path) const {
    if (method == "HEAD") method = "GET";
    for (const Route* route : routes_) {
        if (route->method == method && matches(*route, path)) return route;
    }
    return nullptr;
}

std::optional<std::string> RouteList::nearest_path(std::string_view path) const {
    const std::string in_api = fmt::format("/v1{}", path);
    if (is_suggested(find(in_api))) return in_api;
    for (size_t at = path.find('/', 1); at != std::string_view::npos; at = path.find('/', at + 1)) {
        if (is_suggested(find(path.substr(at)))) return std::string(path.substr(at));
    }
    for (const Absent& absent : kAbsent) {
        const bool is_meant = path.starts_with(absent.begins) && is_suggested(find(absent.nearest));
        if (is_meant) return std::string(absent.nearest);
    }
    return std::nullopt;
}

std::string RouteList::allowed_methods(std::string_view path) const {
    bool has_get = false;
    std::string others;
    for (const Route* route : routes_) {
        if (path != "*" && !matches(*route, path)) continue;
        if (route->method == "GET") {
            has_get = true;
        } else if (others.find(route->method) == std::string::npos) {
            others += fmt::format("{}, ", route->method);
        }
    }
    return (has_get ? "GET, HEAD, " : "") + others + "OPTIONS";
}

}  // namespace nvllm::server
