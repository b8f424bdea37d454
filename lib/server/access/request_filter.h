// What is refused on sight of a request's head: unknown routes, wrong methods and types, foreign
// origins and hosts, missing keys, and everything new while the server ends.
#pragma once

#include <optional>

#include "lib/server/access/api_keys.h"
#include "lib/server/access/filter_options.h"
#include "lib/server/access/route_list.h"
#include "lib/server/http/http_server.h"

namespace nvllm::server {

// Thread-safe: reads only.
class RequestFilter {
  public:
    // All outlive the filter.
    RequestFilter(const RouteList& routes, const FilterOptions& options, const KeyRing& keys)
        : routes_(routes), options_(options), keys_(keys) {}

    // `is_shutting_down`: requests that would start work are refused.
    std::optional<HttpResponse> check(const HttpRequest& head, const Endpoint& endpoint,
                                      bool is_shutting_down) const;

    // Headers that let a page of an allowed origin read the response; none for others.
    std::vector<HttpHeader> cors_headers(const HttpRequest& head) const;

  private:
    ApiError not_found(const HttpRequest& head) const;
    std::optional<ApiError> refusal(const HttpRequest& head, const Endpoint& endpoint,
                                    bool is_shutting_down) const;
    std::optional<ApiError> check_sender(const HttpRequest& head, const Endpoint& endpoint) const;
    std::optional<ApiError> check_key(const HttpRequest& head, const Endpoint& endpoint,
                                      const Route& route) const;
    HttpResponse options_response(const HttpRequest& head) const;
    bool is_allowed_origin(std::string_view origin, const HttpRequest& head) const;

    const RouteList& routes_;
    const FilterOptions& options_;
    const KeyRing& keys_;
};

}  // namespace nvllm::server
