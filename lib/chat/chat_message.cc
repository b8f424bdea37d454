// Messages read from JSON, field by field.
#include "lib/chat/chat_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/json.h"

namespace nvllm {
namespace {

// Of arguments in which a key comes twice: looking keys up is linear.
constexpr size_t kMaxRepeatedKeys = 256;

Fault wrong(std::string position, const std::string& complaint) {
    return {ErrorKind::bad_data, fmt::format("{} {}", position, complaint), std::move(position)};
}

const ChatJson* find(const ChatJson& object, std::string_view key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

const ChatJson* find_text(const ChatJson& object, std::string_view key) {
    const ChatJson* value = find(object, key);
    return value != nullptr && value->is_string() ? value : nullptr;
}

// What kinds of parts are texts, and where the text stands.
struct TextPart {
    std::string_view type;
    std::string_view key;
};
constexpr auto kTextParts = std::to_array<TextPart>({{"text", "text"},
                                                     {"input_text", "text"},
                                                     {"output_text", "text"},
                                                     {"refusal", "refusal"},
                                                     {"thinking", "thinking"}});

// Without a type, the key itself says what the part is.
const TextPart* kind_of(const ChatJson& part) {
    const ChatJson* type = find(part, "type");
    for (const TextPart& kind : kTextParts) {
        if (type != nullptr ? *type == kind.type : find_text(part, kind.key) != nullptr) {
            return &kind;
        }
    }
    return nullptr;
}

Result<std::string> read_part(const ChatJson& part, const std::string& position) {
    if (part.is_string()) return part.get<std::string>();
    if (!part.is_object()) return wrong(position, "must be a text or an object with a type");
    const TextPart* kind = kind_of(part);
    if (kind != nullptr) {
        const ChatJson* text = find_text(part, kind->key);
        if (text != nullptr) return text->get<std::string>();
        return wrong(fmt::format("{}.{}", position, kind->key), "must be a text");
    }
    const ChatJson* type = find_text(part, "type");
    if (type == nullptr) return wrong(position, "must be a text or an object with a type");
    return wrong(position + ".type", fmt::format("is '{}', but this model reads text only",
                                                 type->get<std::string>().substr(0, 64)));
}

std::optional<Fault> read_content(const ChatJson& content, const std::string& position,
                                  ChatMessage& message) {
    if (content.is_string()) {
        message.content = content.get<std::string>();
        return std::nullopt;
    }
    if (!content.is_array()) return wrong(position, "must be a text or a list of parts");
    std::vector<ContentPart> parts;
    for (size_t i = 0; i < content.size(); ++i) {
        auto text = read_part(content[i], fmt::format("{}[{}]", position, i));
        if (!text) return text.fault();
        if (!text->empty()) parts.push_back({std::move(*text)});
    }
    message.content = std::move(parts);
    return std::nullopt;
}

std::optional<Fault> read_arguments(const ChatJson* given, const std::string& position,
                                    ToolCall& call) {
    if (given == nullptr) return std::nullopt;
    if (!given->is_string()) {
        call.arguments = *given;
        return std::nullopt;
    }
    std::string text = given->get<std::string>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
    auto arguments = json_or_text(text, position);
    if (!arguments) return arguments.fault();
    if (arguments->is_null()) return std::nullopt;
    call.arguments = std::move(*arguments);
    call.arguments_text = std::move(text);
    return std::nullopt;
}

Result<ToolCall> read_tool_call(const ChatJson& given, const std::string& position) {
    ToolCall call;
    if (given.is_object()) call.fields = given;
    ChatJson& function = ToolCall::function_in(call.fields);
    const ChatJson* name = find_text(function, "name");
    if (name == nullptr)
        return wrong(position, "must be an object with a function that has a name");
    const std::string inner = &function == &call.fields ? "" : ".function";
    if (auto fault = read_arguments(find(function, "arguments"),
                                    fmt::format("{}{}.arguments", position, inner), call)) {
        return *fault;
    }
    call.name = name->get<std::string>();
    if (const ChatJson* id = find_text(given, "id")) call.id = id->get<std::string>();
    for (const char* key : {"name", "arguments"}) {
        if (function.contains(key)) function[key] = nullptr;
    }
    if (call.id) call.fields["id"] = nullptr;
    return call;
}

std::optional<Fault> read_tool_calls(const ChatJson& calls, const std::string& position,
                                     ChatMessage& message) {
    if (!calls.is_array()) return wrong(position, "must be a list");
    for (size_t i = 0; i < calls.size(); ++i) {
        auto call = read_tool_call(calls[i], fmt::format("{}[{}]", position, i));
        if (!call) return call.fault();
        message.tool_calls.push_back(std::move(*call));
    }
    return std::nullopt;
}

template <auto Member>
std::optional<Fault> read_text(const ChatJson& value, const std::string& position,
                               ChatMessage& message) {
    if (!value.is_string()) return wrong(position, "must be a text");
    message.*Member = value.get<std::string>();
    return std::nullopt;
}

struct TypedField {
    std::string_view key;
    std::optional<Fault> (*read)(const ChatJson&, const std::string& position, ChatMessage&);
};
constexpr auto kTypedFields = std::to_array<TypedField>({
    {"role", read_text<&ChatMessage::role>},
    {"content", read_content},
    {"tool_calls", read_tool_calls},
    {"tool_call_id", read_text<&ChatMessage::tool_call_id>},
    {"name", read_text<&ChatMessage::name>},
    {"refusal", read_text<&ChatMessage::refusal>},
    {"reasoning_content", read_text<&ChatMessage::reasoning_content>},
});

const TypedField* find_field(std::string_view key) {
    const auto* found = std::ranges::find(kTypedFields, key, &TypedField::key);
    return found == kTypedFields.end() ? nullptr : found;
}

// A message of the assistant may consist of tool calls or of a refusal. Of roles that the API does
// not have, the template decides.
bool needs_content(const std::string& role) {
    constexpr std::array kRoles = {"system", "developer", "user", "tool"};
    return std::ranges::find(kRoles, role) != kRoles.end();
}

Result<ChatMessage> read_message(const ChatJson& given, const std::string& position) {
    if (!given.is_object()) return wrong(position, "must be an object");
    ChatMessage message;
    auto& fields = message.fields.get_ref<ChatJson::object_t&>();
    for (const auto& [key, value] : given.items()) {
        if (value.is_null()) continue;
        const TypedField* field = find_field(key);
        fields.emplace_back(key, field != nullptr ? ChatJson() : value);
        if (field == nullptr) continue;
        if (auto fault = field->read(value, fmt::format("{}.{}", position, key), message)) {
            return *fault;
        }
    }
    if (find(given, "role") == nullptr) {
        return wrong(position + ".role", "is missing: it is system, user, assistant or tool");
    }
    const bool has_content = !std::holds_alternative<std::monostate>(message.content);
    if (!has_content && needs_content(message.role)) {
        return wrong(position + ".content", "is missing");
    }
    const ChatJson* reasoning = find_text(given, "reasoning");  // vLLM's name
    if (!message.reasoning_content && reasoning != nullptr) {
        message.reasoning_content = reasoning->get<std::string>();
    }
    return message;
}

}  // namespace

ChatJson& ToolCall::function_in(ChatJson& call) {
    const auto found = call.find("function");
    return found != call.end() && found->is_object() ? *found : call;
}

std::string ChatMessage::text() const {
    if (const auto* text = std::get_if<std::string>(&content)) return *text;
    const auto* parts = std::get_if<std::vector<ContentPart>>(&content);
    if (parts == nullptr) return refusal.value_or("");
    std::string joined;
    for (const ContentPart& part : *parts) {
        if (!joined.empty()) joined += '\n';
        joined += part.text;
    }
    return joined;
}

Result<std::vector<ChatMessage>> read_messages(const ChatJson& messages, size_t max_messages) {
    if (!messages.is_array() || messages.empty()) {
        return wrong("messages", "must be a list with at least one message");
    }
    if (messages.size() > max_messages) {
        return wrong("messages", fmt::format("has {} entries; it must have at most {}",
                                             messages.size(), max_messages));
    }
    std::vector<ChatMessage> read;
    for (size_t i = 0; i < messages.size(); ++i) {
        auto message = read_message(messages[i], fmt::format("messages[{}]", i));
        if (!message) return message.fault();
        read.push_back(std::move(*message));
    }
    return read;
}

Result<Conversation> read_conversation(ChatJson variables, size_t max_messages) {
    Conversation conversation;
    if (const auto found = variables.find("messages"); found != variables.end()) {
        auto messages = read_messages(*found, max_messages);
        if (!messages) return messages.fault();
        conversation.messages = std::move(*messages);
        variables.erase(found);
    }
    conversation.variables = std::move(variables);
    return conversation;
}

Result<ChatJson> json_or_text(const std::string& text, const std::string& position) {
    for (const bool has_repeated_keys : {false, true}) {
        JsonLimits limits;
        limits.allow_duplicate_keys = has_repeated_keys;
        if (has_repeated_keys) limits.max_keys = kMaxRepeatedKeys;
        try {
            return parse_ordered_json(text, position, limits);
        } catch (const Error&) {
        }
    }
    if (!ChatJson::accept(text)) return ChatJson(text);
    return wrong(position, "is nested too deeply, or an object in it has too many keys");
}

std::string position_of_broken_arguments(const std::vector<ChatMessage>& messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
        const std::vector<ToolCall>& calls = messages[i].tool_calls;
        for (size_t k = 0; k < calls.size(); ++k) {
            if (calls[k].arguments.is_object()) continue;
            return fmt::format("messages[{}].tool_calls[{}].function.arguments", i, k);
        }
    }
    return {};
}

}  // namespace nvllm
