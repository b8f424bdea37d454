// One line is one rendering; whatever is wrong with it is its own fault.
#include "lib/view/template_lines.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/chat/chat_message.h"

namespace nvllm::view {
namespace {

Result<ChatJson> variables_in(const std::string& line) {
    try {
        ChatJson variables = parse_ordered_json(line, "this line");
        if (variables.is_object()) return variables;
        return Fault{ErrorKind::bad_data, "this line is not an object: {\"messages\": [...], ...}"};
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

LineAnswer answer_of(const Result<RenderedChat>& rendered) {
    if (!rendered) return fault_answer(rendered.fault());
    return {"{\"text\":" + json_quoted(rendered->text) + "}", std::nullopt};
}

}  // namespace

LineAnswer render_line(const ConversationRenderer& conversations, const std::string& line,
                       const RenderOptions& options) {
    auto variables = variables_in(line);
    if (!variables) return fault_answer(variables.fault());
    const auto conversation = read_conversation(std::move(*variables));
    if (!conversation) return fault_answer(conversation.fault());
    return answer_of(conversations.render(*conversation, options));
}

LineAnswer render_line(const ChatTemplate& source, const std::string& line,
                       const RenderOptions& options) {
    const auto variables = variables_in(line);
    if (!variables) return fault_answer(variables.fault());
    return answer_of(source.render(*variables, options));
}

std::string template_named(const Tokenizer& tokenizer, const std::string& name) {
    const std::string source = tokenizer.chat_template(name.empty() ? "default" : name);
    if (!source.empty()) return source;
    const auto names = tokenizer.chat_template_names();
    throw Error(ErrorKind::bad_data,
                fmt::format("this model has no chat template{}; {}",
                            name.empty() ? "" : fmt::format(" named '{}'", name),
                            names.empty() ? "give one with --template FILE"
                                          : fmt::format("it has: {}", fmt::join(names, ", "))));
}

}  // namespace nvllm::view
