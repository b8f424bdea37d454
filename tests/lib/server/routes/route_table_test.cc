// The table of routes, and how paths find them.
#include "lib/server/routes/route_table.h"

#include <doctest/doctest.h>

#include <set>

#include "lib/server/routes/routes.h"

using namespace nvllm::server;

namespace {

const Route* find(std::string_view path) { return route_table().find(path); }
const Route* find(std::string_view method, std::string_view path) {
    return route_table().find(method, path);
}

}  // namespace

TEST_CASE("routes: every one is found by its method and path, and only once") {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const Route* each : route_table().all()) {
        const Route& route = *each;
        CAPTURE(route.path);
        CHECK(seen.emplace(route.method, route.path).second);
        std::string path(route.path);
        if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "a/b");
        CHECK(find(route.method, path) == &route);
        REQUIRE(find(path) != nullptr);
        CHECK(!route.summary.empty());
        CHECK((route.handle != nullptr));
        CHECK((route.schema.response != nullptr));
        CHECK((route.method == "GET" || route.method == "POST" || route.method == "DELETE"));
    }
}

TEST_CASE("routes: methods and paths are matched exactly") {
    CHECK(find("GET", "/ready") == &routes::ready);
    CHECK(find("HEAD", "/ready") == &routes::ready);
    CHECK(find("POST", "/ready") == nullptr);
    CHECK(find("HEAD", "/v1/completions") == nullptr);
    for (const char* path :
         {"", "/Ready", "/ready//", "//ready", "/v1/model", "/v1/completions/x", "//"}) {
        CAPTURE(path);
        CHECK(find(path) == nullptr);
    }
    CHECK(find("GET", "/v1/models") == &routes::models);
    CHECK(find("GET", "/v1/models/org/name") == &routes::model);
    // A slash more makes no difference.
    CHECK(find("GET", "/v1/models/") == &routes::models);
    CHECK(find("POST", "/v1/chat/completions/") == &routes::chat_completions);
}

TEST_CASE("routes: what somebody may have meant whose base address is wrong") {
    CHECK(route_table().nearest_path("/chat/completions") == "/v1/chat/completions");
    CHECK(route_table().nearest_path("/models/a") == "/v1/models/a");
    CHECK(route_table().nearest_path("/v1/v1/embeddings") == "/v1/embeddings");
    CHECK(route_table().nearest_path("/openai/v1/completions") == "/v1/completions");
    CHECK(route_table().nearest_path("/v1/tokenize") == "/tokenize");
    CHECK(route_table().nearest_path("/v1/threads/1/runs") == "/v1/responses");
    CHECK(route_table().nearest_path("/v1/messages/batches") == "/v1/messages");
    for (const char* path : {"/nope", "/v1/nope", "/v1/", "/v1/admin/drain", "/x/"}) {
        CAPTURE(path);
        CHECK(!route_table().nearest_path(path));
    }
}

TEST_CASE("routes: allowed methods") {
    CHECK(route_table().allowed_methods("/ready") == "GET, HEAD, OPTIONS");
    CHECK(route_table().allowed_methods("/v1/chat/completions") == "POST, OPTIONS");
    CHECK(route_table().allowed_methods("*") == "GET, HEAD, POST, DELETE, OPTIONS");
    CHECK(route_table().allowed_methods("/v1/responses/resp_1") == "GET, HEAD, DELETE, OPTIONS");
}

TEST_CASE("routes: what starts work or shows anything needs a key") {
    const std::set<std::string_view> open = {"/", "/openapi.json"};
    const std::set<std::string_view> health = {"/live", "/ready", "/health", "/ping", "/version"};
    for (const Route* each : route_table().all()) {
        const Route& route = *each;
        CAPTURE(route.path);
        CHECK((route.access == RouteAccess::open) == open.contains(route.path));
        CHECK((route.access == RouteAccess::health) == health.contains(route.path));
        CHECK(route.is_probe == (health.contains(route.path) && route.path != "/version"));
        CHECK(route.is_page == (route.path == "/"));
        const bool is_admin =
            route.path.starts_with("/admin/") || route.path == "/reset_prefix_cache";
        CHECK((route.access == RouteAccess::admin) == is_admin);
        if (route.has_json_body) CHECK(route.is_off_loop);
    }
}
