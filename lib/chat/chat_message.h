// A conversation as every program has it: typed messages, checked once, and what a chat template is
// given besides them.
//
// Include it only in .cc files: the JSON library comes with it. Other headers name Conversation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/result.h"

namespace nvllm {

using ChatJson = nlohmann::ordered_json;

// A piece of a message's content. Only texts are read so far.
struct ContentPart {
    std::string text;
};

// A call that the assistant made earlier.
struct ToolCall {
    std::optional<std::string> id;
    std::string name;
    // What the text of the arguments holds: an object. A text that is no JSON stays a text.
    ChatJson arguments = ChatJson::object();
    std::optional<std::string> arguments_text;  // as the model wrote them, when they came as text
    // The call's object as it was given, with null where the members above say what stands there.
    ChatJson fields = ChatJson::object();

    // Where name and arguments stand in such an object: in "function", or, as in some data sets, in
    // the call itself.
    static ChatJson& function_in(ChatJson& call);
};

struct ChatMessage {
    std::string role;
    // Nothing: null or absent, as beside calls of tools.
    std::variant<std::monostate, std::string, std::vector<ContentPart>> content = {};
    std::vector<ToolCall> tool_calls = {};
    std::optional<std::string> tool_call_id = {};
    std::optional<std::string> name = {};
    std::optional<std::string> refusal = {};
    std::optional<std::string> reasoning_content = {};
    // All keys in the order they were given, with null where a member above has the value. Keys
    // that were given as null are left out.
    ChatJson fields = ChatJson::object();

    // The content as one text, a line for each part; without content the refusal, else nothing.
    std::string text() const;
};

struct Conversation {
    std::vector<ChatMessage> messages = {};
    // Of the template: tools, documents, add_generation_prompt and whatever else it knows.
    ChatJson variables = ChatJson::object();
    std::optional<std::string> chat_template = {};  // in place of the model's
};

// The value of "messages". Faults (bad_data) name the position and the field:
// "messages[3].content". Roles are the template's to judge.
Result<std::vector<ChatMessage>> read_messages(const ChatJson& messages,
                                               size_t max_messages = SIZE_MAX);

// An object of a template's variables, messages among them or not.
Result<Conversation> read_conversation(ChatJson variables, size_t max_messages = SIZE_MAX);

// The JSON that a text holds, else the text itself. Of a key that comes twice the last value
// counts, as in Python. A fault, naming `position`, for what is JSON but beyond the limits.
Result<ChatJson> json_or_text(const std::string& text, const std::string& position);

// Where arguments of a call are no JSON, "messages[1].tool_calls[0].function.arguments"; else
// empty.
std::string position_of_broken_arguments(const std::vector<ChatMessage>& messages);

}  // namespace nvllm
