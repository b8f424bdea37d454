// One pass over the messages; neighbours of one role are joined first, as the publisher does.
#include "lib/chat/mistral_format.h"

#include <vector>

#include "kernels/error.h"
#include "lib/chat/chat_message.h"
#include "lib/jinja/json_value.h"
#include "lib/jinja/text_form.h"

namespace nvllm {
namespace {

using chat::TrackedText;
using Json = nlohmann::ordered_json;

struct Turn {
    std::string role;
    std::string content;
    Json calls = Json::array();
    Json results = Json::array();
};

Json result_of(const std::string& text) {
    auto parsed = json_or_text(text, "the result of a tool");
    if (!parsed) throw chat::TemplateFailure{parsed.fault().message};
    return std::move(*parsed);
}

void add_text(std::string& to, const std::string& text) {
    if (!to.empty() && !text.empty()) to += "\n\n";
    to += text;
}

void add_message(const ChatMessage& message, Turn& turn) {
    if (turn.role == "tool") {
        turn.results.push_back(
            {{"name", message.name.value_or("")}, {"content", result_of(message.text())}});
        return;
    }
    add_text(turn.content, message.text());
    for (const ToolCall& call : message.tool_calls) {
        turn.calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
    }
}

// The turns, and apart from them all that the system says.
std::vector<Turn> turns_of(const std::vector<ChatMessage>& messages, std::string& system) {
    std::vector<Turn> turns;
    for (const ChatMessage& message : messages) {
        const std::string& role = message.role;
        if (role == "system" || role == "developer") {
            add_text(system, message.text());
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

Result<RenderedChat> render_mistral(const Conversation& conversation, MistralFormat format) {
    try {
        std::string system;
        const auto turns = turns_of(conversation.messages, system);
        const Json tools = conversation.variables.value("tools", Json::array());
        const TrackedText text = format == MistralFormat::v1 ? render_v1(turns, system)
                                                             : render_v2(turns, system, tools);
        return RenderedChat{text.bytes(), text.marks()};
    } catch (const chat::TemplateFailure& failure) {
        return Fault{ErrorKind::bad_data, "conversation: " + failure.message};
    }
}

}  // namespace nvllm
