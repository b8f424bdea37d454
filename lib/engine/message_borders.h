// Where the messages of a prompt begin and end, as far as its special tokens tell: templates put
// some between messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// Tokens in which the header of an answer ends a prompt, and what else templates put there.
inline constexpr size_t kHeaderTokens = 64;

// Request::num_stable_tokens. What templates put behind the last special token before an answer,
// such as an empty block of reasoning, is often left out when that answer is history.
int32_t count_stable_tokens(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

// Request::message_borders.
std::vector<int32_t> message_borders(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

}  // namespace nvllm
