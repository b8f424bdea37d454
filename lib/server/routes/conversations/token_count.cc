// Renders and encodes it.
#include "lib/server/routes/conversations/token_count.h"

#include "lib/chat/conversation_renderer.h"

namespace nvllm::server {

Result<size_t> count_tokens(const HostedModel& model, const ChatPrompt& prompt) {
    const Engine& engine = *model.engine();
    auto chat = engine.input_processor().conversations().render(*prompt);
    if (!chat) return chat.fault();
    return encode_chat(*engine.tokenizer(), *chat, false).size();
}

}  // namespace nvllm::server
