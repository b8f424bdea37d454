// One pass over the messages; neighbours of one role are joined first, as the publisher does.
#include "lib/text/chat/mistral_format.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/error.h"
#include "lib/text/chat/json_value.h"
#include "lib/text/chat/text_form.h"

namespace nvllm {
namespace {

using chat::TrackedText;
using Json = nlohmann::ordered_json;

constexpr int kDeepestJson = 64;

struct Turn {
    std::string role;
    std::string content;
    Json calls = Json::array();
    Json results = Json::array();
};

// The JSON that a text holds, else the text itself.
Json parsed_or_text(const std::string& text) {
    const auto too_deep = [](int depth, Json::parse_event_t, Json&) {
        if (depth > kDeepestJson)
            throw chat::TemplateFailure{"JSON within a message is nested too deeply"};
        return true;
    };
    Json parsed = Json::parse(text, too_deep, false);
    return parsed.is_discarded() ? Json(text) : parsed;
}

const Json& field(const Json& object, const std::string& name) {
    if (!object.is_object() || !object.contains(name)) {
        throw chat::TemplateFailure{"a field '" + name + "' is missing"};
    }
    return object[name];
}

std::string text_of(const Json& value, const std::string& name) {
    if (!value.is_string()) throw chat::TemplateFailure{"'" + name + "' must be a string"};
    return value.get<std::string>();
}

std::string content_of(const Json& message) {
    const auto content = message.find("content");
    if (content == message.end() || content->is_null()) return {};
    if (!content->is_array()) return text_of(*content, "content");
    std::string text;
    for (const Json& part : *content) {
        if (field(part, "type") != "text") {
            throw chat::TemplateFailure{"only text can be said in this format"};
        }
        text += text_of(field(part, "text"), "text");
    }
    return text;
}

void add_text(std::string& to, const std::string& text) {
    if (!to.empty() && !text.empty()) to += "\n\n";
    to += text;
}

void add_message(const Json& message, Turn& turn) {
    if (turn.role == "tool") {
        const std::string name =
            message.contains("name") ? text_of(message["name"], "name") : std::string();
        turn.results.push_back({{"name", name}, {"content", parsed_or_text(content_of(message))}});
        return;
    }
    add_text(turn.content, content_of(message));
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    for (const Json& call : *calls) {
        const Json& function = field(call, "function");
        const Json& arguments = field(function, "arguments");
        turn.calls.push_back(
            {{"name", text_of(field(function, "name"), "name")},
             {"arguments", arguments.is_string() ? parsed_or_text(arguments) : arguments}});
    }
}

// The turns, and apart from them all that the system says.
std::vector<Turn> turns_of(const Json& messages, std::string& system) {
    std::vector<Turn> turns;
    if (!messages.is_array()) throw chat::TemplateFailure{"'messages' must be a list"};
    for (const Json& message : messages) {
        const std::string role = text_of(field(message, "role"), "role");
        if (role == "system") {
            add_text(system, content_of(message));
            continue;
        }
        if (role != "user" && role != "assistant" && role != "tool") {
            throw chat::TemplateFailure{"the role '" + role + "' is not known to this format"};
        }
        if (turns.empty() || turns.back().role != role) turns.emplace_back().role = role;
        add_message(message, turns.back());
    }
    return turns;
}

TrackedText json_text(const Json& json) {
    return chat::json_of(chat::value_of_json(json, true), {});
}

TrackedText render_v1(const std::vector<Turn>& turns, const std::string& system) {
    TrackedText out("<s>");
    bool first = true;
    for (const Turn& turn : turns) {
        if (turn.role == "user") {
            out.append("[INST] ");
            if (first && !system.empty()) out.append(system + "\n\n", true);
            first = false;
            out.append(turn.content, true);
            out.append(" [/INST]");
        } else if (turn.role == "assistant" && turn.calls.empty()) {
            out.append(" ");
            out.append(turn.content, true);
            out.append("</s>");
        } else {
            throw chat::TemplateFailure{"this format has no tools"};
        }
    }
    return out;
}

TrackedText render_v2(const std::vector<Turn>& turns, const std::string& system,
                      const Json& tools) {
    size_t last_user = turns.size();
    for (size_t i = 0; i < turns.size(); ++i) {
        if (turns[i].role == "user") last_user = i;
    }
    TrackedText out("<s>");
    const auto section = [&](std::string_view open, const Json& json, std::string_view close) {
        out.append(open);
        out.append(json_text(json));
        out.append(close);
    };
    for (size_t i = 0; i < turns.size(); ++i) {
        const Turn& turn = turns[i];
        const bool current = i >= last_user;
        if (turn.role == "user") {
            if (i == last_user && !tools.empty())
                section("[AVAILABLE_TOOLS]", tools, "[/AVAILABLE_TOOLS]");
            out.append("[INST]");
            if (i == last_user && !system.empty()) out.append(system + "\n\n", true);
            out.append(turn.content, true);
            out.append("[/INST]");
        } else if (turn.role == "assistant" && !turn.calls.empty()) {
            if (current) section("[TOOL_CALLS]", turn.calls, "</s>");
            if (!current && !turn.content.empty()) {
                out.append(turn.content, true);
                out.append("</s>");
            }
        } else if (turn.role == "assistant") {
            out.append(turn.content, true);
            out.append("</s>");
        } else if (current) {
            section("[TOOL_RESULTS]", turn.results, "[/TOOL_RESULTS]");
        }
    }
    return out;
}

}  // namespace

MistralFormat mistral_format_of(const Tokenizer& tokenizer) {
    const auto instruction = tokenizer.token_id("[INST]");
    return instruction && tokenizer.is_special(*instruction) ? MistralFormat::v2
                                                             : MistralFormat::v1;
}

Result<RenderedChat> render_mistral(const nlohmann::ordered_json& conversation,
                                    MistralFormat format) {
    try {
        std::string system;
        const auto turns = turns_of(field(conversation, "messages"), system);
        const Json tools = conversation.contains("tools") ? conversation["tools"] : Json::array();
        const TrackedText text = format == MistralFormat::v1 ? render_v1(turns, system)
                                                             : render_v2(turns, system, tools);
        return RenderedChat{text.bytes(), text.marks()};
    } catch (const chat::TemplateFailure& failure) {
        return Fault{ErrorKind::bad_data, "conversation: " + failure.message};
    }
}

}  // namespace nvllm
