// Checks in the order in which their errors help the client most.
#include "lib/server/access/request_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/server/access/origins.h"
#include "lib/server/http/address_options.h"
#include "lib/server/http/websocket_upgrade.h"

namespace nvllm::server {
namespace {

constexpr size_t kLongestShownPath = 128;

bool is_json(const HttpRequest& head) {
    const std::string* type = head.header("Content-Type");
    if (type == nullptr) return true;
    const std::string_view bare = std::string_view(*type).substr(0, type->find(';'));
    return equal_ignoring_case(bare.substr(0, bare.find_last_not_of(' ') + 1), "application/json");
}

// "identity" says that nothing was done to the body.
bool is_encoded(const HttpRequest& head) {
    const std::string* encoding = head.header("Content-Encoding");
    return encoding != nullptr && !encoding->empty() && !equal_ignoring_case(*encoding, "identity");
}

ApiError unsupported_media(std::string message) {
    return {.status = 415, .message = std::move(message), .code = "unsupported_media_type"};
}

// What a preflight asks for, back: which headers a page may send is no secret, and says nothing of
// what it may do. Only names, whatever was sent.
std::string allowed_headers(const HttpRequest& head) {
    constexpr std::string_view kAlways = "Authorization, Content-Type, X-Request-Id";
    static constexpr std::string_view kSeparators = "\"()/:;<=>?@[\\]{}";
    const std::string* asked = head.header("Access-Control-Request-Headers");
    if (asked == nullptr || asked->empty()) return std::string(kAlways);
    std::string names = *asked;
    std::erase_if(names, [](char letter) {
        return letter < ' ' || letter > '~' || kSeparators.find(letter) != std::string_view::npos;
    });
    return names;
}

bool reaches(const Endpoint& endpoint, const Route& route, const FilterOptions& options) {
    switch (endpoint.role) {
        case EndpointRole::admin:
            return true;
        case EndpointRole::metrics:
            return route.access == RouteAccess::metrics || route.access == RouteAccess::health;
        case EndpointRole::api:
            break;
    }
    if (route.access == RouteAccess::adapters) return options.changes_adapters;
    return route.access != RouteAccess::admin;
}

}  // namespace

std::optional<HttpResponse> RequestFilter::check(const HttpRequest& head, const Endpoint& endpoint,
                                                 bool is_shutting_down) const {
    auto wrong = refusal(head, endpoint, is_shutting_down);
    std::optional<HttpResponse> response;
    if (wrong) {
        response = error_response(*wrong);
        if (const Route* route = routes_.find(head.path)) {
            put_in_form(route->errors, "", *response);
        }
        if (wrong->status == 405) {
            response->headers.push_back({"Allow", routes_.allowed_methods(head.path)});
        }
        if (wrong->status == 415) response->headers.push_back({"Accept-Encoding", "identity"});
        if (wrong->status == 426) {
            response->headers.push_back({"Upgrade", "websocket"});
            response->headers.push_back({"Sec-WebSocket-Version", "13"});
        }
        response->closes = wrong->status == 503;
    } else if (head.method == "OPTIONS") {
        response = options_response(head);
    }
    if (response) std::ranges::copy(cors_headers(head), std::back_inserter(response->headers));
    return response;
}

ApiError RequestFilter::not_found(const HttpRequest& head) const {
    const auto meant = routes_.nearest_path(head.path);
    const std::string path = head.path.substr(0, kLongestShownPath);
    return {.status = 404,
            .message = meant ? fmt::format("there is no route {}; did you mean {}?", path, *meant)
                             : fmt::format("there is no route {}; /openapi.json lists them", path),
            .code = "not_found"};
}

std::optional<ApiError> RequestFilter::refusal(const HttpRequest& head, const Endpoint& endpoint,
                                               bool is_shutting_down) const {
    if (auto wrong = check_sender(head, endpoint)) return wrong;
    if (head.method == "OPTIONS" && head.path == "*") return std::nullopt;
    const Route* by_path = routes_.find(head.path);
    const bool is_hidden = by_path != nullptr && by_path->is_page && !options_.serves_page;
    if (by_path == nullptr || is_hidden || !reaches(endpoint, *by_path, options_))
        return not_found(head);
    if (head.method == "OPTIONS") return std::nullopt;
    const bool is_websocket = wants_websocket(head) && by_path->has_json_body;
    const Route* route = is_websocket ? by_path : routes_.find(head.method, head.path);
    if (route == nullptr) {
        return ApiError{.status = 405,
                        .message = fmt::format("{} takes {}", by_path->path,
                                               routes_.allowed_methods(head.path)),
                        .code = "method_not_allowed"};
    }
    if (auto wrong = check_key(head, endpoint, *route)) return wrong;
    if (wants_websocket(head)) {
        if (auto wrong = check_upgrade(head)) return wrong;
    } else if (route->has_json_body && !is_json(head)) {
        return unsupported_media("the body must be JSON: send Content-Type: application/json");
    } else if (route->has_json_body && is_encoded(head)) {
        return unsupported_media("an encoded body is not read: send it without Content-Encoding");
    }
    if (is_shutting_down && route->has_json_body) return shutting_down();
    return std::nullopt;
}

// A page of another site, or one whose name was pointed at this machine, must not use the server
// behind its user's back.
std::optional<ApiError> RequestFilter::check_sender(const HttpRequest& head,
                                                    const Endpoint& endpoint) const {
    if (!endpoint.unix_socket.empty()) return std::nullopt;
    const std::string* host = head.header("Host");
    const std::string_view name = host == nullptr ? "" : without_port(*host);
    const bool is_known_host =
        host == nullptr || !is_loopback(endpoint.host) || is_loopback(name) ||
        name == endpoint.host ||
        std::ranges::find(options_.allowed_hosts, name) != options_.allowed_hosts.end();
    if (!is_known_host) {
        return ApiError{.status = 403,
                        .message =
                            "this server does not answer to that host name; "
                            "--allowed-hosts names further ones",
                        .code = "misdirected_request"};
    }
    const std::string* origin = head.header("Origin");
    if (origin != nullptr && !is_allowed_origin(*origin, head)) {
        return ApiError{
            .status = 403,
            .message = fmt::format("pages of this origin may not ask here: start the server with "
                                   "--allowed-origins '{}' to let them",
                                   origin->substr(0, kLongestShownPath)),
            .code = "forbidden_origin"};
    }
    return std::nullopt;
}

bool RequestFilter::is_allowed_origin(std::string_view origin, const HttpRequest& head) const {
    if (options_.local_origins && is_local_origin(origin)) return true;
    const bool is_named = std::ranges::any_of(options_.allowed_origins, [&](const auto& pattern) {
        return matches_origin(pattern, origin);
    });
    const std::string* host = head.header("Host");
    return is_named || (host != nullptr && is_same_origin(origin, *host));
}

std::optional<ApiError> RequestFilter::check_key(const HttpRequest& head, const Endpoint& endpoint,
                                                 const Route& route) const {
    const bool is_open = route.access == RouteAccess::open || route.access == RouteAccess::health ||
                         (route.access == RouteAccess::metrics && options_.metrics_without_key);
    if (is_open || endpoint.role != EndpointRole::api || keys_.empty()) return std::nullopt;
    const auto authorization = head.authorization();
    if (authorization && keys_.find(*authorization)) return std::nullopt;
    return ApiError{.status = 401,
                    .message = !authorization
                                   ? "an API key is needed: send Authorization: Bearer KEY"
                                   : "this API key is not known here",
                    .code = "invalid_api_key"};
}

HttpResponse RequestFilter::options_response(const HttpRequest& head) const {
    HttpResponse response;
    response.status = 204;
    response.content_type.clear();
    response.headers.push_back({"Allow", routes_.allowed_methods(head.path)});
    if (!cors_headers(head).empty()) {
        response.headers.push_back(
            {"Access-Control-Allow-Methods", routes_.allowed_methods(head.path)});
        response.headers.push_back({"Access-Control-Allow-Headers", allowed_headers(head)});
        response.headers.push_back({"Access-Control-Max-Age", "600"});
        // A page of the internet that asks a private network, which browsers have confirmed.
        if (head.header("Access-Control-Request-Private-Network") != nullptr) {
            response.headers.push_back({"Access-Control-Allow-Private-Network", "true"});
        }
    }
    return response;
}

std::vector<HttpHeader> RequestFilter::cors_headers(const HttpRequest& head) const {
    const std::string* origin = head.header("Origin");
    if (origin == nullptr || !is_allowed_origin(*origin, head)) return {};
    return {{"Access-Control-Allow-Origin", *origin},
            {"Access-Control-Expose-Headers",
             "x-request-id, x-nvllm-ignored, x-nvllm-model, x-should-retry, retry-after"},
            {"Vary", "Origin, Access-Control-Request-Headers"}};
}

}  // namespace nvllm::server
