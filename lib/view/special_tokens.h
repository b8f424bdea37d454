// The special tokens of a tokenizer and what they are for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace nvllm::view {

struct SpecialToken {
    int32_t id = 0;
    std::string text;
    std::string role;  // "bos", "eos" or empty
};

// By id.
std::vector<SpecialToken> special_tokens(const Tokenizer& tokenizer);

}  // namespace nvllm::view
