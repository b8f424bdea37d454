// How a model's conversations become text: by a template that was given, by the checkpoint's own
// ones, or in the format of Mistral's tokenizer.model, which comes without one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/chat/chat_template.h"
#include "lib/chat/mistral_format.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

struct Conversation;  // lib/chat/chat_message.h
struct MessageForm;   // lib/chat/message_form.h

// Immutable; thread-safe.
class ConversationRenderer {
  public:
    // `tokenizer` may be null; a `given` template stands above its own. A broken one of the
    // checkpoint itself is a fault of the first conversation that needs it. Throws bad_data when
    // the given one cannot be parsed.
    ConversationRenderer(std::shared_ptr<const Tokenizer> tokenizer, const std::string& model_type,
                         const std::string& given);
    ~ConversationRenderer();
    ConversationRenderer(ConversationRenderer&&) noexcept;

    // With the tokenizer's special tokens and a generation prompt where the variables do not say
    // otherwise. Of several templates "tool_use" renders what has tools, as in transformers. With
    // the variable continue_final_message the text ends with the last message's content.
    Result<RenderedChat> render(const Conversation& conversation,
                                const RenderOptions& options = {}) const;

    // The text of the templates, for finding out what they show; the markers of Mistral's format.
    std::string sources() const;

    bool can_render() const { return default_.source != nullptr || mistral_.has_value(); }

  private:
    struct Source {
        std::unique_ptr<const ChatTemplate> source;
        std::unique_ptr<const MessageForm> form;
        std::string fault;  // why it cannot be used
    };
    // Throws bad_data when it cannot be parsed.
    static Source parse(const std::string& text);
    static Source load(const std::string& text);
    Result<RenderedChat> render_whole(const Conversation& conversation,
                                      const RenderOptions& options) const;
    Result<RenderedChat> render_by(const Source& chosen, const Conversation& conversation,
                                   const RenderOptions& options) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    Source default_;
    Source with_tools_;  // empty: the default
    std::optional<MistralFormat> mistral_;
};

}  // namespace nvllm
