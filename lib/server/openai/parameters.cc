// Bodies by the table of parameters.
#include "lib/server/openai/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/engine/options/request_json.h"
#include "lib/server/openai/parameter_table.h"

namespace nvllm::server {
namespace {

using schema::Json;

const char* use_name(ParameterUse use) {
    switch (use) {
        case ParameterUse::full:
            return "full";
        case ParameterUse::no_effect:
            return "no effect";
        case ParameterUse::not_built:
            break;
    }
    return "not built";
}

// What fields say of each other.
Json rules(CallKind kind) {
    Json list = Json::array();
    const auto add = [&](const char* rule) { list.push_back(Json::parse(rule)); };
    const bool generates = kind == CallKind::completion || kind == CallKind::chat;
    if (kind == CallKind::completion) {
        add(R"({"if": {"required": ["echo"], "properties": {"echo": {"const": true}}},
                "else": {"properties": {"max_tokens": {"minimum": 1}}}})");
    }
    if (kind == CallKind::chat) {
        add(R"({"if": {"required": ["logprobs"], "properties": {"logprobs": {"const": true}}},
                "else": {"properties": {"top_logprobs": {"type": "null"}}}})");
    }
    if (kind == CallKind::chat || kind == CallKind::tokenize) {
        add(R"({"not": {"required": ["add_generation_prompt", "continue_final_message"],
                        "properties": {"add_generation_prompt": {"const": true},
                                       "continue_final_message": {"const": true}}}})");
    }
    if (kind == CallKind::tokenize) {
        add(R"({"anyOf": [{"required": ["prompt"]}, {"required": ["content"]},
                          {"required": ["messages"]}]})");
    }
    if (kind == CallKind::score) {
        add(R"({"oneOf": [{"required": ["text_1"]}, {"required": ["queries"]},
                          {"required": ["data_1"]}]})");
        add(R"({"oneOf": [{"required": ["text_2"]}, {"required": ["documents"]},
                          {"required": ["data_2"]}]})");
    }
    if (generates) {
        add(R"({"if": {"required": ["stream"], "properties": {"stream": {"const": true}}},
                "else": {"properties": {"stream_options": {"type": "null"}}}})");
    }
    if (kind == CallKind::chat) {
        add(R"({"if": {"properties": {"tool_choice": {"enum": ["none", "auto", null]}}},
                "else": {"required": ["tools"], "properties": {"tools": {"type": "array", "minItems": 1}}}})");
    }
    return list;
}

Json described(const Parameter& parameter, bool is_required) {
    Json json = is_required ? parameter.schema : schema::or_null(parameter.schema);
    if (!parameter.fallback.is_null()) json["default"] = parameter.fallback;
    json["description"] = parameter.description;
    json["x-nvllm-use"] = use_name(parameter.use);
    return json;
}

bool says_nothing(const Json& value) {
    return value == Json("") || value == Json(false) || (value.is_structured() && value.empty());
}

const std::vector<Parameter>& known_parameters() {
    static const std::vector<Parameter> table = make_parameters({});
    return table;
}

const Parameter* find_parameter(std::string_view name, CallKind kind) {
    for (const Parameter& parameter : known_parameters()) {
        if (parameter.name == name && parameter.belongs_to(kind)) return &parameter;
    }
    return nullptr;
}

std::vector<std::string_view> parameter_names(CallKind kind) {
    std::vector<std::string_view> names;
    for (const Parameter& parameter : known_parameters()) {
        if (parameter.belongs_to(kind)) names.push_back(parameter.name);
    }
    return names;
}

Fault not_built(const Parameter& parameter) {
    std::string name(parameter.name);
    return {ErrorKind::bad_data,
            fmt::format("'{}' is not supported: {}", name, parameter.description), name,
            "unsupported_parameter"};
}

// The row of each field, null where there is none; or the first field that is refused.
Result<std::vector<const Parameter*>> find_rows(const Json& body, CallKind kind, bool is_strict) {
    std::vector<const Parameter*> rows;
    rows.reserve(body.size());
    for (const auto& [name, value] : body.items()) {
        const Parameter* known = rows.emplace_back(find_parameter(name, kind));
        if (known == nullptr && is_strict) return unknown_field(name, parameter_names(kind));
        const bool is_refused = known != nullptr && known->use == ParameterUse::not_built &&
                                !value.is_null() && !says_nothing(value);
        if (is_refused) return not_built(*known);
    }
    return rows;
}

}  // namespace

std::optional<ParameterUse> parameter_use(std::string_view name, CallKind kind) {
    const Parameter* parameter = find_parameter(name, kind);
    return parameter == nullptr ? std::nullopt : std::optional(parameter->use);
}

Fault field_fault(std::string name, const std::string& complaint) {
    return {ErrorKind::bad_data, fmt::format("'{}' {}", name, complaint), std::move(name)};
}

Fault unsupported_field(std::string name, const std::string& complaint) {
    Fault fault = field_fault(std::move(name), complaint);
    fault.code = "unsupported_parameter";
    return fault;
}

Json take_member(Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return nullptr;
    Json value = std::move(*found);
    object.erase(found);
    return value;
}

void name_others(const Json& object, std::initializer_list<std::string_view> known,
                 const std::string& path, std::vector<std::string>& ignored) {
    if (!object.is_object()) return;
    for (const auto& [name, value] : object.items()) {
        const bool is_known = std::ranges::find(known, std::string_view(name)) != known.end();
        if (!is_known && !value.is_null()) ignored.push_back(fmt::format("{}.{}", path, name));
    }
}

Result<std::vector<std::string>> take_idle_fields(Json& body, CallKind kind, bool is_strict) {
    const auto rows = find_rows(body, kind, is_strict);
    if (!rows) return rows.fault();
    std::vector<std::string> idle;
    Json kept = Json::object();
    auto row = rows->begin();
    for (auto& [name, value] : body.items()) {
        const Parameter* known = *row++;
        if (known != nullptr && known->use == ParameterUse::full) {
            kept[name] = std::move(value);
        } else if (!value.is_null() &&
                   (known == nullptr || known->use != ParameterUse::not_built)) {
            idle.push_back(name);
        }
    }
    body = std::move(kept);
    return idle;
}

Json request_schema(CallKind kind, const RequestLimits& limits) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Parameter& parameter : make_parameters(limits)) {
        if (!parameter.belongs_to(kind)) continue;
        const std::string name(parameter.name);
        const bool is_required = (parameter.required_in & static_cast<uint32_t>(kind)) != 0;
        properties[name] = described(parameter, is_required);
        if (is_required) required.push_back(name);
    }
    Json json = schema::object();
    json["description"] =
        "Fields that are not listed are named in the answer's x-nvllm-ignored header, or refused "
        "with --strict-fields.";
    if (!required.empty()) json["required"] = std::move(required);
    json["properties"] = std::move(properties);
    if (Json all = rules(kind); !all.empty()) json["allOf"] = std::move(all);
    return json;
}

}  // namespace nvllm::server
