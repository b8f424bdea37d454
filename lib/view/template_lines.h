// Lines of conversations to JSON lines of rendered text.
#pragma once

#include <string>

#include "lib/chat/conversation_renderer.h"
#include "lib/view/line_replies.h"

namespace nvllm::view {

// {"text": ...} of an object with messages and whatever else the template knows, as an engine
// renders it.
LineAnswer render_line(const ConversationRenderer& conversations, const std::string& line,
                       const RenderOptions& options);
// Of an object whose variables the template is given as they are.
LineAnswer render_line(const ChatTemplate& source, const std::string& line,
                       const RenderOptions& options);

// The text of the template of that name, "default" for an empty one. Throws bad_data, naming those
// there are.
std::string template_named(const Tokenizer& tokenizer, const std::string& name);

}  // namespace nvllm::view
