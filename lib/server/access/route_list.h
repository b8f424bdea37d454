// Finds routes by method and path.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/server/access/route.h"

namespace nvllm::server {

// A view: the routes outlive it.
class RouteList {
  public:
    explicit RouteList(std::span<const Route* const> routes) : routes_(routes) {}

    std::span<const Route* const> all() const { return routes_; }

    // By path alone, which may end with one additional slash; null if no route has it. Of several
    // methods the first.
    const Route* find(std::string_view path) const;
    const Route* find(std::string_view method, std::string_view path) const;
    // A route's path that the client may have meant by `path`: one with a prefix too few or too
    // many ("/chat/completions", "/v1/v1/models"); of a route that the APIs have and this server
    // has not, the nearest.
    std::optional<std::string> nearest_path(std::string_view path) const;
    // "GET, HEAD, OPTIONS", as the Allow header has it; of all routes for "*".
    std::string allowed_methods(std::string_view path) const;

  private:
    std::span<const Route* const> routes_;
};

}  // namespace nvllm::server
