// Checks in the order in which their answers mean most to the client.
#include "lib/server/gate.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm::server {
namespace {

constexpr size_t kLongestShownPath = 128;

// "example.org" of "example.org:8000", "::1" of "[::1]:8000".
std::string_view without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
    return host.substr(0, host.rfind(':'));
}

bool is_json(const HttpRequest& head) {
    const std::string* type = head.header("Content-Type");
    if (type == nullptr) return true;
    const std::string_view bare = std::string_view(*type).substr(0, type->find(';'));
    return equal_ignoring_case(bare.substr(0, bare.find_last_not_of(' ') + 1), "application/json");
}

ApiError not_found(const HttpRequest& head) {
    return {.status = 404,
            .message = fmt::format("there is no route {}; /openapi.json lists them",
                                   head.path.substr(0, kLongestShownPath)),
            .code = "not_found"};
}

bool reaches(const Endpoint& endpoint, const Route& route) {
    switch (endpoint.role) {
        case EndpointRole::admin:
            return true;
        case EndpointRole::metrics:
            return route.access == RouteAccess::metrics || route.action == RouteAction::live ||
                   route.action == RouteAction::ready || route.action == RouteAction::version;
        case EndpointRole::api:
            break;
    }
    return route.access != RouteAccess::admin;
}

}  // namespace

std::optional<HttpResponse> Gate::check(const HttpRequest& head, const Endpoint& endpoint,
                                        bool is_ending) const {
    auto wrong = refusal(head, endpoint, is_ending);
    std::optional<HttpResponse> answer;
    if (wrong) {
        answer = error_response(*wrong);
        if (wrong->status == 405) {
            answer->headers.push_back({"Allow", allowed_methods(head.path)});
        }
        answer->closes = wrong->status == 503;
    } else if (head.method == "OPTIONS") {
        answer = answer_options(head);
    }
    if (answer) std::ranges::copy(cors_headers(head), std::back_inserter(answer->headers));
    return answer;
}

std::optional<ApiError> Gate::refusal(const HttpRequest& head, const Endpoint& endpoint,
                                      bool is_ending) const {
    if (auto wrong = check_sender(head, endpoint)) return wrong;
    if (head.method == "OPTIONS" && head.path == "*") return std::nullopt;
    const Route* by_path = find_route(head.path);
    const bool is_hidden =
        by_path != nullptr && by_path->action == RouteAction::page && !config_.page;
    if (by_path == nullptr || is_hidden || !reaches(endpoint, *by_path)) return not_found(head);
    if (head.method == "OPTIONS") return std::nullopt;
    const std::string* upgrade = head.header("Upgrade");
    const bool is_websocket = head.method == "GET" && upgrade != nullptr &&
                              equal_ignoring_case(*upgrade, "websocket") && by_path->has_json_body;
    const Route* route = is_websocket ? by_path : find_route(head.method, head.path);
    if (route == nullptr) {
        return ApiError{
            .status = 405,
            .message = fmt::format("{} takes {}", by_path->path, allowed_methods(head.path)),
            .code = "method_not_allowed"};
    }
    if (auto wrong = check_key(head, endpoint, *route)) return wrong;
    if (route->has_json_body && !is_websocket && !is_json(head)) {
        return ApiError{.status = 415,
                        .message = "the body must be JSON: send Content-Type: application/json",
                        .code = "unsupported_media_type"};
    }
    if (is_ending && route->has_json_body) return shutting_down();
    return std::nullopt;
}

// A page of another site, or one whose name was pointed at this machine, must not use the server
// behind its user's back.
std::optional<ApiError> Gate::check_sender(const HttpRequest& head,
                                           const Endpoint& endpoint) const {
    if (!endpoint.unix_socket.empty()) return std::nullopt;
    const std::string* host = head.header("Host");
    const std::string_view name = host == nullptr ? "" : without_port(*host);
    const bool is_known_host =
        host == nullptr || !is_loopback(endpoint.host) || is_loopback(name) ||
        name == endpoint.host ||
        std::ranges::find(config_.allowed_hosts, name) != config_.allowed_hosts.end();
    if (!is_known_host) {
        return ApiError{.status = 403,
                        .message =
                            "this server does not answer to that host name; "
                            "--allowed-hosts names further ones",
                        .code = "misdirected_request"};
    }
    const std::string* origin = head.header("Origin");
    if (origin != nullptr && !is_allowed_origin(*origin, head)) {
        return ApiError{.status = 403,
                        .message =
                            "pages of this origin may not ask here; --allowed-origins names "
                            "those that may",
                        .code = "forbidden_origin"};
    }
    return std::nullopt;
}

bool Gate::is_allowed_origin(std::string_view origin, const HttpRequest& head) const {
    const auto& allowed = config_.allowed_origins;
    if (std::ranges::find(allowed, origin) != allowed.end()) return true;
    if (std::ranges::find(allowed, "*") != allowed.end()) return true;
    const std::string* host = head.header("Host");
    const size_t scheme = origin.find("://");
    return host != nullptr && scheme != std::string_view::npos &&
           origin.substr(scheme + 3) == *host;
}

std::optional<ApiError> Gate::check_key(const HttpRequest& head, const Endpoint& endpoint,
                                        const Route& route) const {
    if (route.access == RouteAccess::open || endpoint.role != EndpointRole::api || keys_.empty()) {
        return std::nullopt;
    }
    const std::string* authorization = head.header("Authorization");
    if (authorization != nullptr && keys_.find(*authorization)) return std::nullopt;
    return ApiError{.status = 401,
                    .message = authorization == nullptr
                                   ? "an API key is needed: send Authorization: Bearer KEY"
                                   : "this API key is not known here",
                    .code = "invalid_api_key"};
}

HttpResponse Gate::answer_options(const HttpRequest& head) const {
    HttpResponse answer;
    answer.status = 204;
    answer.content_type.clear();
    answer.headers.push_back({"Allow", allowed_methods(head.path)});
    if (!cors_headers(head).empty()) {
        answer.headers.push_back({"Access-Control-Allow-Methods", allowed_methods(head.path)});
        answer.headers.push_back(
            {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id"});
        answer.headers.push_back({"Access-Control-Max-Age", "600"});
    }
    return answer;
}

std::vector<HttpHeader> Gate::cors_headers(const HttpRequest& head) const {
    const std::string* origin = head.header("Origin");
    if (origin == nullptr || config_.allowed_origins.empty() || !is_allowed_origin(*origin, head)) {
        return {};
    }
    return {{"Access-Control-Allow-Origin", *origin},
            {"Access-Control-Expose-Headers", "x-request-id, x-nvllm-ignored, retry-after"},
            {"Vary", "Origin"}};
}

}  // namespace nvllm::server
