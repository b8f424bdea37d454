// The choice of a template.
#include "lib/text/chat/conversation_renderer.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace nvllm {

ConversationRenderer::Source ConversationRenderer::load(const std::string& text) const {
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

Result<RenderedChat> ConversationRenderer::render(const nlohmann::ordered_json& variables,
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
