// How long a conversation is: for the routes that count without an answer.
#pragma once

#include <cstddef>

#include "lib/base/result.h"
#include "lib/server/models/ready_model.h"

namespace nvllm::server {

// Tokens of the prompt that the model's template makes of it. A fault where the template refuses
// the conversation.
Result<size_t> count_tokens(const HostedModel& model, const ChatPrompt& prompt);

}  // namespace nvllm::server
