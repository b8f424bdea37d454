// Reading blocks.
#include "lib/server/anthropic/message_blocks.h"

#include <fmt/format.h>

#include <optional>

#include "lib/server/openai/parameters.h"

namespace nvllm::server::anthropic {
namespace {

using Json = nlohmann::ordered_json;

bool is_text(const Json& object, const char* key) {
    return object.contains(key) && object[key].is_string();
}

// What one message becomes.
struct Parts {
    Json texts = Json::array();  // parts of its content
    Json calls = Json::array();
    Json results = Json::array();  // messages of the role "tool"
    std::string reasoning;
    std::vector<std::string>& ignored;
};

Fault unknown_block(const std::string& position, const Json& type) {
    const std::string field = position + ".type";
    if (!type.is_string()) return field_fault(field, "must say what the block is");
    return unsupported_field(field, fmt::format("is '{}', but this model reads text only",
                                                type.get<std::string>().substr(0, 64)));
}

std::optional<Fault> add_text(const Json& block, const std::string& position, Json& texts) {
    if (!is_text(block, "text")) return field_fault(position + ".text", "must be a text");
    texts.push_back({{"type", "text"}, {"text", block["text"]}});
    return std::nullopt;
}

// A text, or a list of text blocks, as parts.
std::optional<Fault> read_texts(const Json& content, const std::string& position, Json& texts) {
    if (content.is_string()) {
        texts.push_back({{"type", "text"}, {"text", content}});
        return std::nullopt;
    }
    if (!content.is_array()) return field_fault(position, "must be a text or a list of blocks");
    for (size_t i = 0; i < content.size(); ++i) {
        const std::string at = fmt::format("{}[{}]", position, i);
        const Json type = content[i].is_object() ? content[i].value("type", Json()) : Json();
        if (type != Json("text")) return unknown_block(at, type);
        if (auto fault = add_text(content[i], at, texts)) return fault;
    }
    return std::nullopt;
}

std::optional<Fault> add_result(const Json& block, const std::string& position, Parts& parts) {
    if (!is_text(block, "tool_use_id"))
        return field_fault(position + ".tool_use_id", "must be the id of a call");
    // That it failed must stand in its text: chats have no other place for it.
    if (block.value("is_error", Json()) == Json(true)) {
        parts.ignored.push_back(position + ".is_error");
    }
    Json texts = Json::array();
    const Json content = block.value("content", Json());
    if (!content.is_null()) {
        if (auto fault = read_texts(content, position + ".content", texts)) return fault;
    }
    Json message = {{"role", "tool"}, {"tool_call_id", block["tool_use_id"]}};
    message["content"] = texts.size() == 1 ? texts[0]["text"] : texts.empty() ? Json("") : texts;
    parts.results.push_back(std::move(message));
    return std::nullopt;
}

std::optional<Fault> add_call(const Json& block, const std::string& position, Parts& parts) {
    for (const char* key : {"id", "name"}) {
        if (!is_text(block, key))
            return field_fault(fmt::format("{}.{}", position, key), "must be a text");
    }
    const Json input = block.value("input", Json::object());
    if (!input.is_object()) return field_fault(position + ".input", "must be an object");
    parts.calls.push_back({{"id", block["id"]},
                           {"type", "function"},
                           {"function", {{"name", block["name"]}, {"arguments", input}}}});
    return std::nullopt;
}

std::optional<Fault> read_block(const Json& block, const std::string& position, bool is_assistant,
                                Parts& parts) {
    const Json type = block.is_object() ? block.value("type", Json()) : Json();
    if (type == Json("text")) return add_text(block, position, parts.texts);
    if (type == Json("tool_result") && !is_assistant) return add_result(block, position, parts);
    if (type == Json("tool_use") && is_assistant) return add_call(block, position, parts);
    if (type == Json("redacted_thinking") && is_assistant) {  // only its author can read it
        parts.ignored.push_back(position);
        return std::nullopt;
    }
    if (type != Json("thinking") || !is_assistant) return unknown_block(position, type);
    if (!is_text(block, "thinking")) return field_fault(position + ".thinking", "must be a text");
    parts.reasoning += block["thinking"].get<std::string>();
    return std::nullopt;
}

// One text stays one; several are parts.
Json content_of(Json texts) { return texts.size() == 1 ? Json(texts[0]["text"]) : texts; }

void add_assistant(Parts parts, Json& chat) {
    Json message = {{"role", "assistant"}};
    message["content"] = parts.texts.empty() && !parts.calls.empty() ? Json()
                         : parts.texts.empty()                       ? Json("")
                                               : content_of(std::move(parts.texts));
    if (!parts.reasoning.empty()) message["reasoning_content"] = parts.reasoning;
    if (!parts.calls.empty()) message["tool_calls"] = std::move(parts.calls);
    chat.push_back(std::move(message));
}

std::optional<Fault> add_message(const Json& message, const std::string& position, Json& chat,
                                 std::vector<std::string>& ignored) {
    const Json role = message.is_object() ? message.value("role", Json()) : Json();
    const bool is_assistant = role == Json("assistant");
    if (!is_assistant && role != Json("user") && role != Json("system"))
        return field_fault(position + ".role", "must be user or assistant");
    const Json content = message.value("content", Json());
    Parts parts{.reasoning = {}, .ignored = ignored};
    if (content.is_string()) {
        parts.texts.push_back({{"type", "text"}, {"text", content}});
    } else if (!content.is_array()) {
        return field_fault(position + ".content", "must be a text or a list of blocks");
    } else {
        for (size_t i = 0; i < content.size(); ++i) {
            const std::string at = fmt::format("{}.content[{}]", position, i);
            if (auto fault = read_block(content[i], at, is_assistant, parts)) return fault;
        }
    }
    if (is_assistant) {
        add_assistant(std::move(parts), chat);
        return std::nullopt;
    }
    const bool has_results = !parts.results.empty();
    for (Json& result : parts.results) chat.push_back(std::move(result));
    if (has_results && parts.texts.empty()) return std::nullopt;
    chat.push_back({{"role", role}, {"content", content_of(std::move(parts.texts))}});
    return std::nullopt;
}

}  // namespace

Result<Json> chat_messages(const Json& system, const Json& messages, const RequestLimits& limits,
                           std::vector<std::string>& ignored) {
    Json chat = Json::array();
    if (!system.is_null()) {
        Json texts = Json::array();
        if (auto fault = read_texts(system, "system", texts)) return *fault;
        if (!texts.empty())
            chat.push_back({{"role", "system"}, {"content", content_of(std::move(texts))}});
    }
    if (!messages.is_array() || messages.empty())
        return field_fault("messages", "must be a list with at least one message");
    if (messages.size() > static_cast<size_t>(limits.max_messages)) {
        return field_fault("messages", fmt::format("has {} entries; it must have at most {}",
                                                   messages.size(), limits.max_messages));
    }
    for (size_t i = 0; i < messages.size(); ++i) {
        if (auto fault = add_message(messages[i], fmt::format("messages[{}]", i), chat, ignored))
            return *fault;
    }
    return chat;
}

Result<Json> function_of_tool(const Json& tool, const std::string& position,
                              std::vector<std::string>& ignored) {
    if (!tool.is_object()) return field_fault(position, "must be an object");
    const Json type = tool.value("type", Json("custom"));
    if (!type.is_null() && type != Json("custom")) {
        const std::string shown = type.is_string() ? type.get<std::string>().substr(0, 64) : "";
        return unsupported_field(
            position + ".type",
            fmt::format("is '{}', a tool of another server: only tools with an input_schema can be "
                        "called here",
                        shown));
    }
    if (!is_text(tool, "name")) return field_fault(position + ".name", "must be a text");
    name_others(tool, {"type", "name", "description", "input_schema", "strict", "cache_control"},
                position, ignored);
    Json function = {{"name", tool["name"]}};
    for (const auto& [key, name] :
         {std::pair{"description", "description"}, std::pair{"input_schema", "parameters"},
          std::pair{"strict", "strict"}}) {
        if (tool.contains(key) && !tool[key].is_null()) function[name] = tool[key];
    }
    return Json{{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace nvllm::server::anthropic
