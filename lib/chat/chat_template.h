// The front door to chat templates: conversations to the text that a model was trained on.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/tokenizer/unicode/regex.h"

namespace nvllm {

struct RenderedChat {
    std::string text;
    // The bytes that came from the request (contents, tools, arguments) and not from the template;
    // sorted and apart.
    std::vector<ByteRange> from_messages;
};

struct RenderOptions {
    std::optional<std::tm> now;  // for strftime_now; else as template_now() has it
    // Of the template's work, of all texts made on the way, and of the rendered text: this much,
    // and so many times the size of the variables' texts.
    uint64_t max_steps = 10'000'000;
    uint64_t max_produced_bytes = 16u << 20;
    uint64_t max_output_bytes = 4u << 20;
    uint64_t steps_for_input = 1;
    uint64_t produced_for_input = 64;
    uint64_t output_for_input = 16;
};

// A Jinja template as the transformers library understands it. Immutable; thread-safe.
class ChatTemplate {
  public:
    // Throws Error{bad_data} with the line of the mistake.
    explicit ChatTemplate(std::string source);
    ~ChatTemplate();
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;

    // `variables`: an object with messages, add_generation_prompt, tools, documents, bos_token and
    // whatever else the template knows. All texts in it count as the request's, but for those named
    // *_token and the usual roles.
    Result<RenderedChat> render(const nlohmann::ordered_json& variables,
                                const RenderOptions& options = {}) const;

    const std::string& source() const { return source_; }

  private:
    struct Syntax;
    std::string source_;
    std::unique_ptr<const Syntax> syntax_;
};

// `variables` with what every chat template may expect: the texts of the tokenizer's special tokens
// and a generation prompt.
nlohmann::ordered_json with_template_defaults(const nlohmann::ordered_json& variables,
                                              const Tokenizer& tokenizer);

// The ids of a rendered conversation, without further special tokens around it. What a request
// wrote never becomes a special token, unless allowed.
std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat,
                                 bool allow_special_in_messages = false);

}  // namespace nvllm
