// Finds tokens of white space, and takes them out of masks.
#include "lib/grammar/whitespace_limit.h"

#include <algorithm>
#include <string>

namespace nvllm {

WhitespaceTokens::WhitespaceTokens(const Tokenizer& tokenizer, int32_t vocab_size)
    : bytes_(static_cast<size_t>(vocab_size)), mask_((static_cast<size_t>(vocab_size) + 31) / 32) {
    const int32_t known = std::min(vocab_size, tokenizer.vocab_size());
    for (int32_t id = 0; id < known; ++id) {
        const std::string bytes = tokenizer.is_special(id) ? "" : tokenizer.token_bytes(id);
        if (bytes == "z") letter_ = id;
        if (bytes.empty() || bytes.find_first_not_of(" \n\r\t") != std::string::npos) continue;
        bytes_[static_cast<size_t>(id)] = static_cast<uint8_t>(std::min<size_t>(bytes.size(), 255));
        mask_[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    }
}

void WhitespaceRun::limit(std::span<uint32_t> mask) const {
    if (lengths_.empty() || lengths_.back() < kMostWhitespace || !tokens_->letter()) return;
    const auto letter = static_cast<size_t>(*tokens_->letter());
    if ((mask[letter / 32] >> (letter % 32) & 1) != 0) return;
    const std::span<const uint32_t> whitespace = tokens_->mask();
    bool has_others = false;
    for (size_t word = 0; word < mask.size(); ++word) {
        has_others |= (mask[word] & ~whitespace[word]) != 0;
    }
    if (!has_others) return;
    for (size_t word = 0; word < mask.size(); ++word) mask[word] &= ~whitespace[word];
}

}  // namespace nvllm
