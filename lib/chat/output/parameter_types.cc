// Types of parameters from JSON schemas, and plain text made into values of them.
#include "lib/chat/output/parameter_types.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/chat/output/json_text.h"
#include "lib/chat/output/output_parser.h"
#include "lib/chat/output/python_text.h"

namespace nvllm::output {
namespace {

using Schema = nlohmann::ordered_json;

const char* type_of_value(const Schema& value) {
    if (value.is_string()) return "string";
    if (value.is_boolean()) return "boolean";
    if (value.is_number()) return "number";
    if (value.is_null()) return "null";
    return value.is_array() ? "array" : "object";
}

// "#/$defs/Name" of the whole schema; nothing where it leads nowhere.
const Schema* referred(const Schema& root, const std::string& reference) {
    if (!reference.starts_with("#/")) return nullptr;
    const Schema* at = &root;
    for (size_t from = 2; from <= reference.size();) {
        const size_t end = std::min(reference.find('/', from), reference.size());
        const std::string key = reference.substr(from, end - from);
        if (!at->is_object() || !at->contains(key)) return nullptr;
        at = &at->at(key);
        from = end + 1;
    }
    return at;
}

// Adds the types that a value of `schema` may have.
void collect_types(const Schema& root, const Schema& schema, std::vector<std::string>& types,
                   int depth) {
    if (!schema.is_object() || depth > 8) return;
    for (const auto& [key, value] : schema.items()) {
        if (key == "type") {
            const Schema list = value.is_array() ? value : Schema::array({value});
            for (const Schema& type : list)
                if (type.is_string()) types.push_back(type.get<std::string>());
        } else if (key == "enum" && value.is_array() && !schema.contains("type")) {
            for (const Schema& option : value) types.push_back(type_of_value(option));
        } else if (key == "const" && !schema.contains("type")) {
            types.push_back(type_of_value(value));
        } else if ((key == "anyOf" || key == "oneOf" || key == "allOf") && value.is_array()) {
            for (const Schema& option : value) collect_types(root, option, types, depth + 1);
        } else if (key == "$ref" && value.is_string()) {
            const Schema* target = referred(root, value.get<std::string>());
            if (target != nullptr) collect_types(root, *target, types, depth + 1);
        }
    }
}

std::string lower_case(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

bool is_number_text(std::string_view text) {
    return !text.empty() && (text.front() == '-' || (text.front() >= '0' && text.front() <= '9')) &&
           is_json(text);
}

std::optional<std::string> container(std::string_view text, char open) {
    if (text.empty() || text.front() != open) return std::nullopt;
    if (is_json(text)) return std::string(text);
    const auto json = json_of_python(text);
    return json && json->front() == open ? json : std::nullopt;
}

// `value`, without white space around it, as a value of `type`; nothing where it is none.
std::optional<std::string> as_type(const std::string& type, std::string_view value) {
    const std::string word = lower_case(value);
    if (type == "null")
        return word == "null" || word == "none" ? std::optional("null") : std::nullopt;
    if (type == "boolean")
        return word == "true" || word == "false" ? std::optional(word) : std::nullopt;
    if (type == "integer" || type == "number") {
        if (is_number_text(value)) return std::string(value);
        const auto json = json_of_python(value);  // "+5", ".5", "1_000"
        return json && is_number_text(*json) ? json : std::nullopt;
    }
    if (type == "object") return container(value, '{');
    if (type == "array") return container(value, '[');
    return std::nullopt;
}

}  // namespace

ParameterTypes::ParameterTypes(const std::vector<OfferedTool>& tools) {
    for (const OfferedTool& tool : tools) {
        if (tool.parameters.empty()) continue;
        Schema schema;
        try {
            schema = parse_ordered_json(tool.parameters, "parameters");
        } catch (const Error&) {
            continue;  // without a schema values take the type that they look like
        }
        if (!schema.is_object()) continue;
        Function& function = functions_[tool.name];
        const Schema properties = schema.value("properties", Schema::object());
        for (const auto& [name, property] : properties.items())
            collect_types(schema, property, function.types[name], 0);
        const Schema required = schema.value("required", Schema::array());
        for (const Schema& name : required)
            if (name.is_string()) function.required.push_back(name.get<std::string>());
    }
}

const ParameterTypes::Function* ParameterTypes::find(const std::string& function) const {
    const auto found = functions_.find(function);
    return found == functions_.end() ? nullptr : &found->second;
}

std::string ParameterTypes::json_of(const std::string& function, const std::string& parameter,
                                    std::string_view value) const {
    const std::string_view word = trimmed(value);
    const Function* known = find(function);
    const auto types = known == nullptr
                           ? std::map<std::string, std::vector<std::string>>::const_iterator{}
                           : known->types.find(parameter);
    const bool typed = known != nullptr && types != known->types.end() && !types->second.empty();
    if (!typed) {
        const bool json = !word.empty() && word.front() != '"' && is_json(word);
        return json ? std::string(word) : json_quoted(value);
    }
    // The narrow types first: text is whatever they are not.
    for (const char* type : {"null", "boolean", "integer", "number", "object", "array"}) {
        const auto& list = types->second;
        if (std::find(list.begin(), list.end(), type) == list.end()) continue;
        const bool text_too = std::find(list.begin(), list.end(), "string") != list.end();
        if (text_too && std::string_view(type) != "null") continue;
        if (auto json = as_type(type, word)) return *json;
    }
    return json_quoted(value);
}

bool ParameterTypes::is_text(const std::string& function, const std::string& parameter,
                             std::string_view value) const {
    const Function* known = find(function);
    if (known == nullptr) return false;
    const auto types = known->types.find(parameter);
    if (types == known->types.end()) return false;
    const auto names = [&](const char* type) {
        return std::find(types->second.begin(), types->second.end(), type) != types->second.end();
    };
    constexpr size_t kLongestNull = 4;  // "null", "none"
    return names("string") && (!names("null") || trimmed(value).size() > kLongestNull);
}

bool ParameterTypes::is_foreign(const std::string& function, const std::string& parameter) const {
    const Function* known = find(function);
    return known != nullptr && known->types.count(parameter) == 0;
}

bool ParameterTypes::has_required(const std::string& function,
                                  const std::vector<std::string>& given) const {
    const Function* known = find(function);
    if (known == nullptr) return true;
    return std::all_of(known->required.begin(), known->required.end(), [&](const auto& name) {
        return std::find(given.begin(), given.end(), name) != given.end();
    });
}

void ArgumentsText::set(const std::string& name, std::string json) {
    for (auto& [key, value] : members_) {
        if (key == name) {
            value = std::move(json);
            return;
        }
    }
    members_.emplace_back(name, std::move(json));
}

std::string ArgumentsText::json() const {
    std::string text = "{";
    for (const auto& [name, value] : members_) {
        if (text.size() > 1) text += ", ";
        text += json_quoted(name) + ": " + value;
    }
    return text + "}";
}

std::vector<std::string> ArgumentsText::names() const {
    std::vector<std::string> names;
    for (const auto& member : members_) names.push_back(member.first);
    return names;
}

}  // namespace nvllm::output
