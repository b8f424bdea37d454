// Objects of JSON Schema: every brace that could be read as a list is avoided.
#include "lib/server/openai/schema.h"

#include <nlohmann/json.hpp>
#include <string>

namespace nvllm::server::schema {
namespace {

Json of_type(const char* type) {
    Json json = Json::object();
    json["type"] = type;
    return json;
}

Json array_of(std::vector<Json> items) {
    Json json = Json::array();
    for (Json& item : items) json.push_back(std::move(item));
    return json;
}

}  // namespace

Json anything() { return Json::object(); }
Json text() { return of_type("string"); }
Json boolean() { return of_type("boolean"); }
Json number() { return of_type("number"); }

Json number(float min, float max, bool excludes_min) {
    Json json = number();
    json[excludes_min ? "exclusiveMinimum" : "minimum"] = min;
    json["maximum"] = max;
    return json;
}

Json integer(int64_t min) {
    Json json = of_type("integer");
    if (min != std::numeric_limits<int64_t>::min()) json["minimum"] = min;
    return json;
}

Json integer(int64_t min, int64_t max) {
    Json json = of_type("integer");
    json["minimum"] = min;
    json["maximum"] = max;
    return json;
}

Json values(std::vector<Json> allowed) {
    Json json = Json::object();
    json["enum"] = array_of(std::move(allowed));
    return json;
}

Json list(Json item, std::optional<size_t> max, size_t min) {
    Json json = of_type("array");
    json["items"] = std::move(item);
    if (min > 0) json["minItems"] = min;
    if (max) json["maxItems"] = *max;
    return json;
}

Json any_of(std::vector<Json> alternatives) {
    Json json = Json::object();
    json["anyOf"] = array_of(std::move(alternatives));
    return json;
}

Json or_null(Json schema) {
    if (schema.empty()) return schema;
    if (schema.contains("enum")) {
        schema["enum"].push_back(nullptr);
        return schema;
    }
    if (schema.contains("anyOf")) {
        schema["anyOf"].push_back(of_type("null"));
        return schema;
    }
    return any_of({std::move(schema), of_type("null")});
}

Json reference(std::string_view name) {
    Json json = Json::object();
    json["$ref"] = "#/components/schemas/" + std::string(name);
    return json;
}

Json object(std::vector<Property> properties) {
    Json json = of_type("object");
    Json required = Json::array();
    Json described = Json::object();
    for (Property& property : properties) {
        const std::string name(property.name);
        described[name] = std::move(property.schema);
        if (property.is_required) required.push_back(name);
    }
    if (!required.empty()) json["required"] = std::move(required);
    if (!described.empty()) json["properties"] = std::move(described);
    return json;
}

Json map_of(Json value) {
    Json json = of_type("object");
    json["additionalProperties"] = std::move(value);
    return json;
}

}  // namespace nvllm::server::schema
