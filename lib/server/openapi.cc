// One operation for each route.
#include "lib/server/openapi.h"

#include <nlohmann/json.hpp>

#include "lib/server/routes.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

std::string lower(std::string_view method) {
    std::string text(method);
    for (char& letter : text) letter = static_cast<char>(letter | 0x20);
    return text;
}

std::string path_of(const Route& route) {
    std::string path(route.path);
    if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{name}");
    return path;
}

Json error_answer(const char* description) {
    return {{"description", description},
            {"content",
             {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
}

Json operation(const Route& route) {
    Json json = {{"summary", route.summary},
                 {"responses",
                  {{"200", {{"description", "Done."}}},
                   {"4XX", error_answer("The request is at fault.")},
                   {"5XX", error_answer("The server cannot answer now.")}}}};
    if (route.access == RouteAccess::open) json["security"] = Json::array();
    if (route.path.ends_with("/*")) {
        json["parameters"] = Json::array({{{"name", "name"},
                                           {"in", "path"},
                                           {"required", true},
                                           {"schema", {{"type", "string"}}}}});
    }
    if (route.has_json_body) {
        json["requestBody"] = {
            {"required", true},
            {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
    }
    return json;
}

Json error_schema() {
    const Json text_or_null = {{"type", {"string", "null"}}};
    return {{"type", "object"},
            {"required", {"error"}},
            {"properties",
             {{"error",
               {{"type", "object"},
                {"required", {"message", "type", "param", "code"}},
                {"properties",
                 {{"message", {{"type", "string"}}},
                  {"type", {{"type", "string"}}},
                  {"param", text_or_null},
                  {"code", text_or_null}}}}}}}};
}

}  // namespace

Json openapi_document(const std::string& version) {
    Json paths = Json::object();
    for (const Route& route : route_table()) {
        if (route.access == RouteAccess::admin) continue;
        paths[path_of(route)][lower(route.method)] = operation(route);
    }
    return {{"openapi", "3.1.0"},
            {"info", {{"title", "nvllm-serve"}, {"version", version}}},
            {"security", Json::array({{{"key", Json::array()}}})},
            {"paths", std::move(paths)},
            {"components",
             {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
              {"schemas", {{"Error", error_schema()}}}}}};
}

}  // namespace nvllm::server
