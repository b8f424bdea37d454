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

bool is_suggested(const Route* route) {
    return route != nullptr && route->access != RouteAccess::admin && !route->is_page;
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
