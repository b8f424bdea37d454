// Messages written for one template, and small conversations that show how it wants them.
#include "lib/chat/message_form.h"

#include <string_view>

#include "lib/jinja/json_value.h"
#include "lib/jinja/text_form.h"

namespace nvllm {
namespace {

ChatJson content_in_form(const ChatMessage& message, const MessageForm& form) {
    const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content);
    const bool is_null = std::holds_alternative<std::monostate>(message.content);
    if (is_null && form.null_content && !message.tool_calls.empty()) return nullptr;
    // Results of tools are texts in most templates, also in those that take parts elsewhere.
    const bool has_parts = parts != nullptr && form.takes_parts && message.role != "tool";
    if (!has_parts && !form.needs_parts) return message.text();
    ChatJson list = ChatJson::array();
    if (parts != nullptr) {
        for (const ContentPart& part : *parts) {
            list.push_back({{"type", "text"}, {"text", part.text}});
        }
    } else if (const std::string text = message.text(); !text.empty()) {
        list.push_back({{"type", "text"}, {"text", text}});
    }
    return list;
}

ChatJson arguments_in_form(const ToolCall& call, const MessageForm& form) {
    if (!form.argument_texts) return call.arguments;
    if (call.arguments_text) return *call.arguments_text;
    return chat::json_of(chat::value_of_json(call.arguments, false), {}).bytes();
}

ChatJson call_in_form(const ToolCall& call, const MessageForm& form) {
    ChatJson json = call.fields;
    if (call.id) json["id"] = *call.id;
    if (call.fields.empty()) {
        json["type"] = "function";
        json["function"] = ChatJson::object();
    }
    ChatJson& function = ToolCall::function_in(json);
    function["name"] = call.name;
    function["arguments"] = arguments_in_form(call, form);
    return json;
}

ChatJson calls_in_form(const ChatMessage& message, const MessageForm& form) {
    ChatJson calls = ChatJson::array();
    for (const ToolCall& call : message.tool_calls) calls.push_back(call_in_form(call, form));
    return calls;
}

// What the members say, for those that say something.
ChatJson typed_fields(const ChatMessage& message, const MessageForm& form) {
    const bool is_system = message.role == "developer" && !form.knows_developer;
    ChatJson json = {{"role", is_system ? "system" : message.role},
                     {"content", content_in_form(message, form)}};
    const auto add = [&](const char* key, const std::optional<std::string>& text) {
        if (text) json[key] = *text;
    };
    add("reasoning_content", message.reasoning_content);
    if (!message.fields.contains("reasoning")) add("reasoning", message.reasoning_content);
    if (!message.tool_calls.empty()) json["tool_calls"] = calls_in_form(message, form);
    add("tool_call_id", message.tool_call_id);
    add("name", message.name);
    add("refusal", message.refusal);
    return json;
}

ChatJson message_in_form(const ChatMessage& message, const MessageForm& form) {
    ChatJson typed = typed_fields(message, form);
    ChatJson json = ChatJson::object();
    auto& entries = json.get_ref<ChatJson::object_t&>();
    for (const auto& [key, value] : message.fields.items()) {
        const auto found = typed.find(key);
        if (found != typed.end()) {
            entries.emplace_back(key, std::move(*found));
            typed.erase(found);
        } else if (!value.is_null()) {
            entries.emplace_back(key, value);
        }
    }
    for (auto& [key, value] : typed.items()) entries.emplace_back(key, std::move(value));
    return json;
}

// Words that no template writes by itself.
constexpr const char* kWord = "qzwordone";
constexpr const char* kOtherWord = "qzwordtwo";
// Of a rendering that only looks: templates that need more are taken with the defaults.
constexpr uint64_t kProbeSteps = 100'000;

size_t count_of(std::string_view text, std::string_view word) {
    size_t count = 0;
    for (size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + word.size())) {
        ++count;
    }
    return count;
}

// The text that the template makes of the messages; nothing when it fails.
std::optional<std::string> probe(const ChatTemplate& source,
                                 const std::vector<ChatMessage>& messages,
                                 const MessageForm& form) {
    static const ChatJson kTools = ChatJson::parse(
        R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
             "properties": {"a": {"type": "string", "description": "d"}}, "required": ["a"]}}}])");
    RenderOptions options;
    options.max_steps = kProbeSteps;
    options.now = std::tm{};
    auto rendered = source.render({{"messages", messages_in_form(messages, form)},
                                   {"tools", messages.size() > 1 ? kTools : ChatJson()},
                                   {"add_generation_prompt", true},
                                   {"bos_token", "<s>"},
                                   {"eos_token", "</s>"}},
                                  options);
    if (!rendered) return std::nullopt;
    return std::move(rendered->text);
}

// A list that is printed instead of read shows the keys of its parts.
void find_parts(const ChatTemplate& source, MessageForm& form) {
    const std::vector<ContentPart> parts = {{kWord}, {kOtherWord}};
    const auto as_text = probe(source, {{.role = "user", .content = kWord}}, {});
    const auto as_parts =
        probe(source, {{.role = "user", .content = parts}}, {.takes_parts = true});
    if (!as_parts) return;
    const bool is_shown = as_parts->find(kWord) != std::string::npos &&
                          as_parts->find(kOtherWord) != std::string::npos;
    form.takes_parts =
        is_shown && count_of(*as_parts, "type") <= count_of(as_text.value_or(""), "type");
    form.needs_parts = form.takes_parts && (!as_text || as_text->find(kWord) == std::string::npos);
}

// A call of a tool and its result.
std::vector<ChatMessage> conversation_with_a_call() {
    ToolCall call;
    call.id = "qzcall001";  // nine letters and digits, as Mistral's templates demand
    call.name = kWord;
    call.arguments = {{"a", kOtherWord}};
    ChatMessage calling{.role = "assistant"};
    calling.tool_calls = {std::move(call)};
    ChatMessage result{.role = "tool", .content = "r"};
    result.tool_call_id = "qzcall001";
    result.name = kWord;
    return {{.role = "user", .content = "q"}, std::move(calling), std::move(result)};
}

bool shows_call(const std::optional<std::string>& text) {
    const bool is_shown = text && text->find(kWord) != std::string::npos &&
                          text->find(kOtherWord) != std::string::npos;
    return is_shown && text->find(std::string("\\\"") + kOtherWord) == std::string::npos;
}

// Null is given to templates that treat it on its own, and not to those that print it.
bool wants_null(const std::string& with_null, const std::optional<std::string>& with_text) {
    if (!shows_call(with_text)) return true;
    return with_null != *with_text && count_of(with_null, "None") <= count_of(*with_text, "None") &&
           count_of(with_null, "null") <= count_of(*with_text, "null");
}

void find_calls(const ChatTemplate& source, MessageForm& form) {
    const std::vector<ChatMessage> messages = conversation_with_a_call();
    for (const bool argument_texts : {false, true}) {
        MessageForm tried = form;
        tried.argument_texts = argument_texts;
        const auto with_text = probe(source, messages, tried);
        tried.null_content = true;
        const auto with_null = probe(source, messages, tried);
        tried.null_content = shows_call(with_null) && wants_null(*with_null, with_text);
        if (!tried.null_content && !shows_call(with_text)) continue;
        form = tried;
        return;
    }
}

}  // namespace

MessageForm form_of(const ChatTemplate& source) {
    MessageForm form;
    form.knows_developer = source.source().find("developer") != std::string::npos;
    find_parts(source, form);
    find_calls(source, form);
    return form;
}

ChatJson messages_in_form(const std::vector<ChatMessage>& messages, const MessageForm& form) {
    ChatJson list = ChatJson::array();
    for (const ChatMessage& message : messages) list.push_back(message_in_form(message, form));
    return list;
}

}  // namespace nvllm
