// Offsets by detokenizing along.
#include "lib/server/openai/text_offsets.h"

#include <algorithm>

#include "lib/base/utf8.h"

namespace nvllm::server {

TextOffsets::TextOffsets(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

void TextOffsets::begin_echo(std::string_view text) {
    echo_ = utf8::with_replacement(text);
    echo_characters_ = utf8::count(echo_);
    is_echoing_ = true;
    if (tokenizer_ != nullptr) detokenizer_.emplace(tokenizer_, true);
}

void TextOffsets::begin_response(std::span<const int32_t> prompt, bool skip_special_tokens) {
    at_ = echo_characters_;
    is_echoing_ = false;
    if (tokenizer_ != nullptr) detokenizer_.emplace(tokenizer_, skip_special_tokens, prompt);
}

size_t TextOffsets::next(int32_t token_id) {
    const size_t offset = is_echoing_ ? std::min(at_, echo_characters_) : at_;
    at_ += characters_of(token_id);
    return offset;
}

// Special tokens are part of an echo only where the client wrote them.
size_t TextOffsets::characters_of(int32_t token_id) {
    if (!detokenizer_) return 0;
    std::string text = detokenizer_->append(token_id);
    if (!is_echoing_) return utf8::count(text);
    if (text.empty() && tokenizer_->is_special(token_id)) {
        const std::string written = tokenizer_->token_text(token_id);
        if (std::string_view(echo_).substr(at_byte_).starts_with(written)) text = written;
    }
    at_byte_ = std::min(at_byte_ + text.size(), echo_.size());
    return utf8::count(text);
}

}  // namespace nvllm::server
