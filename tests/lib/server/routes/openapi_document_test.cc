// The document of the interface: whole, and without loose ends.
#include "lib/server/routes/openapi_document.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/server/routes/route_table.h"

using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

const Json& document() {
    static const Json json = openapi_document(route_table(), "1.2.3", ServerConfig{});
    return json;
}

// Calls `visit` with every object in it.
void walk(const Json& json, const std::function<void(const Json&)>& visit) {
    if (json.is_object()) visit(json);
    if (!json.is_structured()) return;
    for (const Json& part : json) walk(part, visit);
}

}  // namespace

TEST_CASE("openapi: all routes but the administration's") {
    CHECK(document()["info"]["version"] == "1.2.3");
    size_t operations = 0;
    for (const auto& [path, methods] : document()["paths"].items()) operations += methods.size();
    size_t expected = 0;
    for (const Route* route : route_table().all()) {
        expected += route->access < RouteAccess::admin;
    }
    CHECK(operations == expected);
    CHECK(document()["paths"].contains("/v1/models/{name}"));
    CHECK(!document()["paths"]["/v1/completions"]["post"].contains("security"));
    CHECK(document()["paths"]["/ready"]["get"]["security"].empty());
    CHECK(document().dump().find("/admin") == std::string::npos);
}

TEST_CASE("openapi: bodies and answers of every route are described") {
    for (const Route* each : route_table().all()) {
        const Route& route = *each;
        if (route.access >= RouteAccess::admin) continue;
        CAPTURE(route.path);
        std::string path(route.path);
        if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{name}");
        std::string method(route.method);
        for (char& letter : method) letter = static_cast<char>(letter | 0x20);
        const Json& operation = document()["paths"][path][method];
        const bool has_body = route.has_json_body || route.schema.other_body != nullptr;
        CHECK(operation.contains("requestBody") == has_body);
        for (const Json& media : operation["responses"]["200"]["content"]) {
            CHECK(!media["schema"].empty());
        }
        CHECK(!operation["responses"]["200"]["content"].empty());
    }
}

TEST_CASE("openapi: what is referred to is there, and what is there is referred to") {
    std::set<std::string> used;
    walk(document(), [&](const Json& json) {
        if (json.contains("$ref")) used.insert(json["$ref"].get<std::string>());
    });
    std::set<std::string> there;
    for (const auto& [name, schema] : document()["components"]["schemas"].items()) {
        there.insert("#/components/schemas/" + name);
    }
    CHECK(used == there);
}

TEST_CASE("openapi: limits with their values, their defaults and what is answered beyond") {
    ServerConfig config;
    config.requests.max_prompts = 7;
    config.requests.max_messages = 9;
    const Json changed = openapi_document(route_table(), "1", config);
    size_t found = 0;
    for (const Json& limit : changed["x-nvllm-limits"]) {
        CAPTURE(limit["flag"].get<std::string>());
        CHECK(!limit["description"].get<std::string>().empty());
        CHECK(!limit["default"].get<std::string>().empty());
        const bool is_silent =
            limit["flag"] == "--keep-alive-interval" || limit["flag"] == "--overload-status";
        CHECK(limit.contains("beyond") != is_silent);
        if (limit["flag"] != "--max-prompts") continue;
        ++found;
        CHECK(limit["value"] == "7");
        CHECK(limit["default"] == "2048");
        CHECK(limit["range"] == "1 to 16384");
    }
    CHECK(found == 1);
    const Json& schemas = changed["components"]["schemas"];
    CHECK(schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"][2]["maxItems"] == 7);
    CHECK(schemas["ChatCompletionRequest"]["properties"]["messages"]["maxItems"] == 9);
}
