// The conversation formats of Mistral's first tokenizers, which come as a tokenizer.model without a
// chat template.
#pragma once

#include "lib/base/result.h"
#include "lib/chat/chat_template.h"

namespace nvllm {

struct Conversation;

// v1: [INST] is written as text, no tools. v2: control tokens, tools before the last user message,
// and calls and their results only behind it.
enum class MistralFormat { v1, v2 };

// The format of a Mistral checkpoint whose tokenizer is a tokenizer.model alone: recognized by
// whether its vocabulary has the control token [INST].
MistralFormat mistral_format_of(const Tokenizer& tokenizer);

// With the variable "tools" for v2. Texts of messages are marked as the request's.
Result<RenderedChat> render_mistral(const Conversation& conversation, MistralFormat format);

}  // namespace nvllm
