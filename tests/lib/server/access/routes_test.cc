// The table of routes.
#include "lib/server/access/routes.h"

#include <doctest/doctest.h>

#include <set>

using namespace nvllm::server;

TEST_CASE("routes: every one is found by its method and path, and only once") {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const Route& route : route_table()) {
        CAPTURE(route.path);
        CHECK(seen.emplace(route.method, route.path).second);
        std::string path(route.path);
        if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "a/b");
        CHECK(find_route(route.method, path) == &route);
        REQUIRE(find_route(path) != nullptr);
        CHECK(!route.summary.empty());
        CHECK((route.method == "GET" || route.method == "POST"));
    }
}

TEST_CASE("routes: methods and paths are matched exactly") {
    CHECK(find_route("GET", "/ready")->action == RouteAction::ready);
    CHECK(find_route("HEAD", "/ready")->action == RouteAction::ready);
    CHECK(find_route("POST", "/ready") == nullptr);
    CHECK(find_route("HEAD", "/v1/completions") == nullptr);
    for (const char* path :
         {"", "/Ready", "/ready//", "//ready", "/v1/model", "/v1/completions/x", "//"}) {
        CAPTURE(path);
        CHECK(find_route(path) == nullptr);
    }
    CHECK(find_route("GET", "/v1/models")->action == RouteAction::models);
    CHECK(find_route("GET", "/v1/models/org/name")->action == RouteAction::model);
    // A slash more makes no difference.
    CHECK(find_route("GET", "/v1/models/")->action == RouteAction::models);
    CHECK(find_route("POST", "/v1/chat/completions/")->action == RouteAction::chat_completions);
}

TEST_CASE("routes: what somebody may have meant whose base address is wrong") {
    CHECK(nearest_path("/chat/completions") == "/v1/chat/completions");
    CHECK(nearest_path("/models/a") == "/v1/models/a");
    CHECK(nearest_path("/v1/v1/embeddings") == "/v1/embeddings");
    CHECK(nearest_path("/openai/v1/completions") == "/v1/completions");
    CHECK(nearest_path("/v1/tokenize") == "/tokenize");
    for (const char* path : {"/nope", "/v1/nope", "/v1/", "/v1/admin/drain", "/x/"}) {
        CAPTURE(path);
        CHECK(!nearest_path(path));
    }
}

TEST_CASE("routes: allowed methods") {
    CHECK(allowed_methods("/ready") == "GET, HEAD, OPTIONS");
    CHECK(allowed_methods("/v1/chat/completions") == "POST, OPTIONS");
    CHECK(allowed_methods("*") == "GET, HEAD, POST, OPTIONS");
}

TEST_CASE("routes: what starts work or shows anything needs a key") {
    const std::set<std::string_view> open = {"/",        "/live",         "/ready", "/health",
                                             "/version", "/openapi.json", "/ping"};
    for (const Route& route : route_table()) {
        CAPTURE(route.path);
        CHECK((route.access == RouteAccess::open) == open.contains(route.path));
        CHECK((route.access == RouteAccess::admin) == route.path.starts_with("/admin/"));
        if (route.has_json_body) CHECK(route.is_off_loop);
    }
}
