// Where each token of an output stands in the returned text, in characters.
//
// A character that several tokens spell is where all of them stand; a token without text (one of
// the special ones, which are left out) stands where the next text begins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/tokenizer/detokenizer.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::server {

// Not thread-safe.
class TextOffsets {
  public:
    // `tokenizer` may be null: then nothing has text.
    explicit TextOffsets(std::shared_ptr<const Tokenizer> tokenizer);

    // The prompt's tokens come, and the returned text begins with `text`.
    void begin_echo(std::string_view text);
    // The output's tokens come; what was echoed stands before them.
    void begin_response(std::span<const int32_t> prompt, bool skip_special_tokens);

    // Of the next token.
    size_t next(int32_t token_id);

  private:
    size_t characters_of(int32_t token_id);

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::optional<Detokenizer> detokenizer_;
    std::string echo_;            // while the prompt's tokens come
    size_t echo_characters_ = 0;  // in all
    size_t at_byte_ = 0;          // of echo_
    size_t at_ = 0;               // characters before the next token
    bool is_echoing_ = false;
};

}  // namespace nvllm::server
