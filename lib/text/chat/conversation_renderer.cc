// The choice of a template.
#include "lib/text/chat/conversation_renderer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"

namespace nvllm {

ConversationRenderer::Source ConversationRenderer::load(const std::string& text) {
    Source loaded;
    if (text.empty()) return loaded;
    try {
        loaded.source = std::make_unique<ChatTemplate>(text);
    } catch (const Error& error) {
        loaded.fault = error.what();
    }
    return loaded;
}

ConversationRenderer::ConversationRenderer(std::shared_ptr<const Tokenizer> tokenizer,
                                           const std::string& model_type, const std::string& given)
    : tokenizer_(std::move(tokenizer)) {
    if (!given.empty()) {
        default_.source = std::make_unique<ChatTemplate>(given);
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

bool is_continued(const nlohmann::ordered_json& variables) {
    const auto found = variables.find(kContinue);
    return found != variables.end() && found->is_boolean() && found->get<bool>();
}

Fault cannot_continue(const std::string& why) {
    return {ErrorKind::bad_data, "continue_final_message: " + why, kContinue};
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\n\r\f\v";
    const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Nothing may follow what the last message says, neither an end token nor a new line: as
// transformers does it, the text is cut behind the last place where that stands.
std::optional<Fault> cut_behind(std::string_view content, RenderedChat& chat) {
    size_t place = chat.text.rfind(content);
    if (place == std::string::npos) {
        content = trimmed(content);
        place = chat.text.rfind(content);
    }
    if (place == std::string::npos) {
        return cannot_continue("the chat template does not show the last message as it is");
    }
    chat.text.resize(place + content.size());
    std::erase_if(chat.from_messages,
                  [&](const ByteRange& range) { return range.begin >= chat.text.size(); });
    for (ByteRange& range : chat.from_messages) range.end = std::min(range.end, chat.text.size());
    return std::nullopt;
}

}  // namespace

Result<RenderedChat> ConversationRenderer::render(const nlohmann::ordered_json& variables,
                                                  const RenderOptions& options) const {
    if (!is_continued(variables)) return render_whole(variables, options);
    const auto messages = variables.find("messages");
    const bool has_text = messages != variables.end() && messages->is_array() &&
                          !messages->empty() && messages->back().is_object() &&
                          messages->back().contains("content") &&
                          messages->back()["content"].is_string();
    if (!has_text) return cannot_continue("the last message has no text to go on from");
    if (variables.contains("add_generation_prompt") &&
        variables["add_generation_prompt"] == nlohmann::ordered_json(true)) {
        return cannot_continue("cannot be combined with add_generation_prompt");
    }
    nlohmann::ordered_json open = variables;
    open["add_generation_prompt"] = false;
    auto chat = render_whole(open, options);
    if (!chat) return chat;
    if (auto wrong = cut_behind(messages->back()["content"].get_ref<const std::string&>(), *chat)) {
        return *wrong;
    }
    return chat;
}

Result<RenderedChat> ConversationRenderer::render_whole(const nlohmann::ordered_json& variables,
                                                        const RenderOptions& options) const {
    if (mistral_) return render_mistral(variables, *mistral_);
    const auto tools = variables.find("tools");
    const bool has_tools = tools != variables.end() && !tools->is_null();
    const bool prefers_tools = with_tools_.source != nullptr || !with_tools_.fault.empty();
    const Source& chosen = has_tools && prefers_tools ? with_tools_ : default_;
    if (!chosen.fault.empty()) {
        return Fault{ErrorKind::bad_data,
                     "the chat template of this model cannot be used: " + chosen.fault};
    }
    if (chosen.source == nullptr) {
        return Fault{ErrorKind::bad_data,
                     "this model has no chat template: give a plain prompt, or a template with "
                     "--chat-template"};
    }
    if (tokenizer_ == nullptr) return chosen.source->render(variables, options);
    return chosen.source->render(with_template_defaults(variables, *tokenizer_), options);
}

}  // namespace nvllm
