// Messages of a chat, checked one by one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/server/generation_call.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

Fault wrong(std::string place, const std::string& complaint) {
    return {ErrorKind::bad_data, fmt::format("{} {}", place, complaint), std::move(place)};
}

bool has_text(const Json& object, const char* key) {
    return object.contains(key) && object[key].is_string();
}

bool has_list(const Json& object, const char* key) {
    return object.contains(key) && object[key].is_array() && !object[key].empty();
}

// [{"type": "text", "text": ...}, ...] as one text, a line for each part.
Result<Json> read_parts(const Json& parts, const std::string& place) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
        const Json& part = parts[i];
        const std::string here = fmt::format("{}[{}]", place, i);
        if (!part.is_object() || !has_text(part, "type")) {
            return wrong(here, "must be an object with a type");
        }
        const auto& type = part["type"].get_ref<const std::string&>();
        if (type != "text" && type != "refusal") {
            return wrong(here + ".type", fmt::format("is '{}', but this model reads text only",
                                                     type.substr(0, 64)));
        }
        if (!has_text(part, type.c_str())) return wrong(here + "." + type, "must be a text");
        if (i > 0) text += '\n';
        text += part[type].get_ref<const std::string&>();
    }
    return Json(std::move(text));
}

std::optional<Fault> check_tool_calls(const Json& calls, const std::string& place) {
    for (size_t i = 0; i < calls.size(); ++i) {
        const Json& call = calls[i];
        const bool is_call = call.is_object() && call.contains("function") &&
                             call["function"].is_object() && has_text(call["function"], "name");
        if (!is_call) {
            return wrong(fmt::format("{}[{}]", place, i),
                         "must be an object with a function that has a name");
        }
    }
    return std::nullopt;
}

Result<Json> read_content(const Json& message, const std::string& role, const std::string& place) {
    const auto content = message.find("content");
    if (content == message.end() || content->is_null()) {
        if (role == "assistant" && has_list(message, "tool_calls")) return Json(nullptr);
        return wrong(place, "is missing");
    }
    if (content->is_string()) return *content;
    if (content->is_array()) return read_parts(*content, place);
    return wrong(place, "must be a text or a list of parts");
}

Result<Json> read_message(const Json& message, const std::string& place, const CallLimits& limits) {
    if (!message.is_object()) return wrong(place, "must be an object");
    if (!has_text(message, "role")) {
        return wrong(place + ".role", "is missing: it must be system, user, assistant or tool");
    }
    auto role = message["role"].get<std::string>();
    constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};
    if (std::ranges::find(kRoles, role) == kRoles.end()) {
        return wrong(place + ".role", fmt::format("is '{}'; it must be system, developer, user, "
                                                  "assistant or tool",
                                                  role.substr(0, 64)));
    }
    if (role == "tool" && !has_text(message, "tool_call_id")) {
        return wrong(place + ".tool_call_id", "is missing: a tool's answer says what it answers");
    }
    auto content = read_content(message, role, place + ".content");
    if (!content) return content.fault();
    if (has_list(message, "tool_calls")) {
        if (auto fault = check_tool_calls(message["tool_calls"], place + ".tool_calls")) {
            return *fault;
        }
    }
    Json checked = message;
    if (role == "developer" && !limits.knows_developer_role) checked["role"] = "system";
    checked["content"] = std::move(*content);
    return checked;
}

}  // namespace

Result<Json> read_messages(const Json& messages, const CallLimits& limits) {
    if (!messages.is_array() || messages.empty()) {
        return wrong("messages", "must be a list with at least one message");
    }
    if (messages.size() > static_cast<size_t>(limits.max_messages)) {
        return wrong("messages", fmt::format("has {} entries; it must have at most {}",
                                             messages.size(), limits.max_messages));
    }
    Json checked = Json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
        auto message = read_message(messages[i], fmt::format("messages[{}]", i), limits);
        if (!message) return message.fault();
        checked.push_back(std::move(*message));
    }
    return checked;
}

}  // namespace nvllm::server
