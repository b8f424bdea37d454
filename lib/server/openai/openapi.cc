// One operation for each route, one component for each shape of a request and of an answer.
#include "lib/server/openai/openapi.h"

#include <fmt/format.h>

#include "lib/cli/options.h"
#include "lib/server/access/routes.h"
#include "lib/server/openai/parameters.h"
#include "lib/server/openai/response_schemas.h"
#include "lib/server/openai/schema.h"

namespace nvllm::server {
namespace {

using schema::Json;

struct RequestShape {
    RouteAction action;
    CallKind kind;
    const char* name;
};

constexpr RequestShape kRequests[] = {
    {RouteAction::completions, CallKind::completion, "CompletionRequest"},
    {RouteAction::chat_completions, CallKind::chat, "ChatCompletionRequest"},
    {RouteAction::embeddings, CallKind::embedding, "EmbeddingRequest"},
    {RouteAction::tokenize, CallKind::tokenize, "TokenizeRequest"},
    {RouteAction::detokenize, CallKind::detokenize, "DetokenizeRequest"},
};

// What is answered to a client that goes beyond a limit; the other limits end in silence.
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

Json response(const char* description, Json content) {
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
    json["200"] = response("Done.", response_content(route.action));
    json["200"]["headers"]["x-request-id"] =
        header("The request's own x-request-id where that is a plain word, or a new one.");
    if (route.has_json_body) {
        json["200"]["headers"]["x-nvllm-ignored"] =
            header("Names of fields that were taken and do nothing; absent when there are none.");
    }
    if (route.action == RouteAction::ready) {
        json["503"] = response("Not yet, or no longer; status says why.", content_of("State"));
    }
    json["4XX"] = response("The request is at fault.", content_of("Error"));
    json["4XX"]["headers"]["Retry-After"] =
        header("With 429: seconds until it may be asked again.");
    json["5XX"] = response("The server cannot answer now.", content_of("Error"));
    json["5XX"]["headers"]["Retry-After"] =
        header("With 503: seconds until it may be asked again.");
    return json;
}

Json parameter(const char* name, const char* permit, bool is_required) {
    Json json = Json::object();
    json["name"] = name;
    json["in"] = permit;
    json["required"] = is_required;
    json["schema"] = schema::text();
    return json;
}

Json operation(const Route& route) {
    Json json = Json::object();
    json["summary"] = route.summary;
    if (route.access == RouteAccess::open) json["security"] = Json::array();
    if (route.path.ends_with("/*")) json["parameters"].push_back(parameter("name", "path", true));
    if (route.action == RouteAction::tokenizer_info) {
        json["parameters"].push_back(parameter("model", "query", false));
    }
    for (const RequestShape& request : kRequests) {
        if (request.action != route.action) continue;
        json["requestBody"]["required"] = true;
        json["requestBody"]["content"] = content_of(request.name);
    }
    const bool has_socket =
        route.action == RouteAction::completions || route.action == RouteAction::chat_completions;
    if (has_socket) {
        json["description"] =
            "Also takes a WebSocket: each text message is such a body, each event of the answer a "
            "message.";
    }
    json["responses"] = responses(route);
    return json;
}

Json schemas(const ServerConfig& config) {
    Json all = response_schemas();
    for (const RequestShape& request : kRequests) {
        all[request.name] = request_schema(request.kind, request_limits(config));
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

Json openapi_document(const std::string& version, const ServerConfig& config) {
    Json json = Json::object();
    json["openapi"] = "3.1.0";
    json["info"]["title"] = "nvllm-serve";
    json["info"]["version"] = version;
    json["security"].push_back(Json::object());
    json["security"][0]["key"] = Json::array();
    json["paths"] = Json::object();
    for (const Route& route : route_table()) {
        if (route.access == RouteAccess::admin) continue;
        json["paths"][path_of(route)][lower(route.method)] = operation(route);
    }
    json["components"]["securitySchemes"]["key"]["type"] = "http";
    json["components"]["securitySchemes"]["key"]["scheme"] = "bearer";
    json["components"]["schemas"] = schemas(config);
    json["x-nvllm-limits"] = limits(config);
    return json;
}

}  // namespace nvllm::server
