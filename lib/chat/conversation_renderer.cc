// The choice of a template.
#include "lib/chat/conversation_renderer.h"

#include <algorithm>
#include <string_view>

#include "kernels/error.h"
#include "lib/chat/message_form.h"
#include "lib/jinja/value.h"

namespace nvllm {

ConversationRenderer::~ConversationRenderer() = default;
ConversationRenderer::ConversationRenderer(ConversationRenderer&&) noexcept = default;

ConversationRenderer::Source ConversationRenderer::parse(const std::string& text) {
    Source parsed;
    parsed.source = std::make_unique<ChatTemplate>(text);
    parsed.form = std::make_unique<MessageForm>(form_of(*parsed.source));
    return parsed;
}

ConversationRenderer::Source ConversationRenderer::load(const std::string& text) {
    if (text.empty()) return {};
    try {
        return parse(text);
    } catch (const Error& error) {
        Source broken;
        broken.fault = error.what();
        return broken;
    }
}

ConversationRenderer::ConversationRenderer(std::shared_ptr<const Tokenizer> tokenizer,
                                           const std::string& model_type, const std::string& given)
    : tokenizer_(std::move(tokenizer)) {
    if (!given.empty()) {
        default_ = parse(given);
        return;
    }
    if (tokenizer_ == nullptr) return;
    default_ = load(tokenizer_->chat_template());
    with_tools_ = load(tokenizer_->chat_template("tool_use"));
    const bool has_none = tokenizer_->chat_template_names().empty();
    if (has_none && tokenizer_->format() == TokenizerFormat::sentencepiece &&
        (model_type == "mistral" || model_type == "mixtral")) {
        mistral_ = mistral_format_of(*tokenizer_);
    }
}

namespace {

constexpr const char* kContinue = "continue_final_message";

bool is_true(const Conversation& conversation, const char* variable) {
    const auto found = conversation.variables.find(variable);
    return found != conversation.variables.end() && *found == ChatJson(true);
}

Fault cannot_continue(const std::string& why) {
    return {ErrorKind::bad_data, "continue_final_message: " + why, kContinue};
}

// What the model is to go on from: of several parts the last.
std::string end_of(const ChatMessage& message) {
    const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content);
    return parts != nullptr && !parts->empty() ? parts->back().text : message.text();
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\n\r\f\v";
    const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Nothing may follow what the last message says, neither an end token nor a new line: as
// transformers does it, the text is cut behind its last occurrence.
std::optional<Fault> cut_behind(std::string_view content, RenderedChat& chat) {
    size_t offset = chat.text.rfind(content);
    if (offset == std::string::npos) {
        content = trimmed(content);
        offset = chat.text.rfind(content);
    }
    if (offset == std::string::npos) {
        return cannot_continue("the chat template does not show the last message as it is");
    }
    chat.text.resize(offset + content.size());
    std::erase_if(chat.from_messages,
                  [&](const ByteRange& range) { return range.begin >= chat.text.size(); });
    for (ByteRange& range : chat.from_messages) range.end = std::min(range.end, chat.text.size());
    return std::nullopt;
}

}  // namespace

Result<RenderedChat> ConversationRenderer::render(const Conversation& conversation,
                                                  const RenderOptions& options) const {
    if (!is_true(conversation, kContinue)) return render_whole(conversation, options);
    const auto& messages = conversation.messages;
    if (messages.empty() || std::holds_alternative<std::monostate>(messages.back().content)) {
        return cannot_continue("the last message has no text to go on from");
    }
    if (is_true(conversation, "add_generation_prompt")) {
        return cannot_continue("cannot be combined with add_generation_prompt");
    }
    Conversation open = conversation;
    open.variables["add_generation_prompt"] = false;
    auto chat = render_whole(open, options);
    if (!chat) return chat;
    if (auto wrong = cut_behind(end_of(messages.back()), *chat)) return *wrong;
    return chat;
}

std::string ConversationRenderer::sources() const {
    std::string all = mistral_ ? "[AVAILABLE_TOOLS] tools [TOOL_CALLS]" : "";
    for (const Source* one : {&default_, &with_tools_}) {
        if (one->source != nullptr) all += one->source->source() + "\n";
    }
    return all;
}

Result<RenderedChat> ConversationRenderer::render_whole(const Conversation& conversation,
                                                        const RenderOptions& options) const {
    if (conversation.chat_template) {
        const Source given = load(*conversation.chat_template);
        if (given.fault.empty()) return render_by(given, conversation, options);
        return Fault{ErrorKind::bad_data, "chat_template: " + given.fault, "chat_template"};
    }
    if (mistral_) return render_mistral(conversation, *mistral_);
    const auto tools = conversation.variables.find("tools");
    const bool has_tools = tools != conversation.variables.end() && !tools->is_null();
    const bool prefers_tools = with_tools_.source != nullptr || !with_tools_.fault.empty();
    return render_by(has_tools && prefers_tools ? with_tools_ : default_, conversation, options);
}

Result<RenderedChat> ConversationRenderer::render_by(const Source& chosen,
                                                     const Conversation& conversation,
                                                     const RenderOptions& options) const {
    if (!chosen.fault.empty()) {
        return Fault{ErrorKind::bad_data,
                     "the chat template of this model cannot be used: " + chosen.fault};
    }
    if (chosen.source == nullptr) {
        return Fault{ErrorKind::bad_data,
                     "this model has no chat template: give a plain prompt, or a template with "
                     "--chat-template"};
    }
    ChatJson variables = conversation.variables;
    try {
        if (!conversation.messages.empty()) {
            variables["messages"] = messages_in_form(conversation.messages, *chosen.form);
        }
    } catch (const chat::TemplateFailure& failure) {
        return Fault{ErrorKind::bad_data, "messages: " + failure.message, "messages"};
    }
    if (tokenizer_ != nullptr) variables = with_template_defaults(variables, *tokenizer_);
    auto chat = chosen.source->render(variables, options);
    const std::string broken = position_of_broken_arguments(conversation.messages);
    if (chat || broken.empty()) return chat;
    return Fault{
        ErrorKind::bad_data,
        broken + " is no JSON object, and without one the template fails: " + chat.fault().message,
        broken};
}

}  // namespace nvllm
