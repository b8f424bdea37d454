// One operation for each route, one component for each shape of a request and of a response.
#include "lib/server/routes/openapi_document.h"

#include <fmt/format.h>

#include "lib/cli/options.h"
#include "lib/server/openai/parameters.h"
#include "lib/server/openai/response_schemas.h"
#include "lib/server/openai/schema.h"

namespace nvllm::server {
namespace {

using schema::Json;

// The response to a client that exceeds a limit; the other limits have none.
constexpr std::pair<std::string_view, std::string_view> kBeyond[] = {
    {"max-body", "413"},
    {"max-header-bytes", "431"},
    {"max-headers", "431"},
    {"max-target-bytes", "414"},
    {"max-connections", "503"},
    {"header-timeout", "408"},
    {"body-timeout", "408"},
    {"idle-timeout", "the connection is closed"},
    {"write-timeout", "the answer is cut off"},
    {"queue-timeout", "503 queue_timeout"},
    {"request-timeout", "504 deadline_exceeded, or an error event in a stream"},
    {"shutdown-timeout", "503 shutting_down, or an error event in a stream"},
    {"max-queued-requests", "queue_full, with the status that --overload-status says"},
    {"max-concurrent-requests", "queue_full, with the status that --overload-status says"},
    {"max-queued-pools", "queue_full, with the status that --overload-status says"},
    {"max-prompts", "400"},
    {"max-messages", "400"},
    {"max-tools", "400"},
    {"max-logprobs", "400"},
    {"max-json-depth", "400"},
    {"max-stored-responses", "the least recently used ones are forgotten"},
    {"max-stored-response-bytes", "the least recently used ones are forgotten"},
};

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

Json response(std::string_view description, Json content) {
    Json json = Json::object();
    json["description"] = description;
    json["content"] = std::move(content);
    return json;
}

Json content_of(std::string_view component) {
    Json content = Json::object();
    content["application/json"]["schema"] = schema::reference(component);
    return content;
}

Json header(const char* description) {
    Json json = Json::object();
    json["description"] = description;
    json["schema"] = schema::text();
    return json;
}

Json responses(const Route& route) {
    Json json = Json::object();
    json["200"] = response("Done.", route.schema.response());
    json["200"]["headers"]["x-request-id"] =
        header("The request's own x-request-id where that is a plain word, or a new one.");
    if (route.has_json_body) {
        json["200"]["headers"]["x-nvllm-ignored"] =
            header("Names of fields that were taken and do nothing; absent when there are none.");
    }
    if (!route.schema.unavailable.empty()) {
        json["503"] = response(route.schema.unavailable, content_of("State"));
    }
    const char* error = route.errors == ErrorForm::openai ? "Error" : "AnthropicError";
    json["4XX"] = response("The request is at fault.", content_of(error));
    json["4XX"]["headers"]["Retry-After"] =
        header("With 429: seconds until it may be asked again.");
    json["5XX"] = response("The server cannot answer now.", content_of(error));
    json["5XX"]["headers"]["Retry-After"] =
        header("With 503: seconds until it may be asked again.");
    return json;
}

Json parameter(std::string_view name, const char* location, bool is_required) {
    Json json = Json::object();
    json["name"] = name;
    json["in"] = location;
    json["required"] = is_required;
    json["schema"] = schema::text();
    return json;
}

Json operation(const Route& route) {
    Json json = Json::object();
    json["summary"] = route.summary;
    const bool needs_no_key =
        route.access == RouteAccess::open || route.access == RouteAccess::health;
    if (needs_no_key) json["security"] = Json::array();
    if (route.path.ends_with("/*")) json["parameters"].push_back(parameter("name", "path", true));
    if (!route.schema.query_parameter.empty()) {
        json["parameters"].push_back(parameter(route.schema.query_parameter, "query", false));
    }
    if (route.schema.body) {
        json["requestBody"]["required"] = true;
        json["requestBody"]["content"] = content_of(route.schema.body->name);
    }
    if (route.schema.other_body != nullptr) {
        json["requestBody"]["required"] = true;
        json["requestBody"]["content"] = route.schema.other_body();
    }
    if (!route.schema.description.empty()) json["description"] = route.schema.description;
    json["responses"] = responses(route);
    return json;
}

Json schemas(const RouteList& routes, const ServerConfig& config) {
    Json all = response_schemas();
    for (const Route* route : routes.all()) {
        if (route->schema.types != nullptr) all.update(route->schema.types());
        if (const auto& body = route->schema.body) {
            all[body->name] = request_schema(body->kind, config.requests);
        }
    }
    return all;
}

Json limit(const BoundOption& option) {
    const OptionField& field = option.field();
    const auto values = option.texts();
    Json json = Json::object();
    json["flag"] = "--" + field.name;
    json["description"] = field.help;
    json["value"] = values.empty() ? Json(nullptr) : Json(values.front());
    json["default"] = option.default_text();
    if (!field.range_text.empty()) json["range"] = field.range_text;
    for (const auto& [name, answer] : kBeyond) {
        if (name == field.name) json["beyond"] = answer;
    }
    return json;
}

// Bound to the built-in values first: those are its defaults.
Json limits(const ServerConfig& config) {
    ServerConfig values;
    OptionSet options;
    options.add(server_options(), values);
    values = config;
    Json json = Json::array();
    for (const BoundOption& option : options.all()) {
        if (option.field().group == "Limits") json.push_back(limit(option));
    }
    return json;
}

}  // namespace

Json openapi_document(const RouteList& routes, const std::string& version,
                      const ServerConfig& config) {
    Json json = Json::object();
    json["openapi"] = "3.1.0";
    json["info"]["title"] = "nvllm-serve";
    json["info"]["version"] = version;
    json["security"].push_back(Json::object());
    json["security"][0]["key"] = Json::array();
    json["paths"] = Json::object();
    for (const Route* route : routes.all()) {
        if (route->access >= RouteAccess::admin) continue;
        json["paths"][path_of(*route)][lower(route->method)] = operation(*route);
    }
    json["components"]["securitySchemes"]["key"]["type"] = "http";
    json["components"]["securitySchemes"]["key"]["scheme"] = "bearer";
    json["components"]["schemas"] = schemas(routes, config);
    json["x-nvllm-limits"] = limits(config);
    return json;
}

}  // namespace nvllm::server
