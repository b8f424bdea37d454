// Lines of text to JSON lines of token ids, and back.
#pragma once

#include <string>

#include "lib/tokenizer/tokenizer.h"
#include "lib/view/line_replies.h"

namespace nvllm::view {

enum class LineFormat {
    text,       // the line is the text
    jsonl,      // {"text": ...}
    automatic,  // jsonl where the line is such an object, else text
};

struct TokenLineOptions {
    LineFormat format = LineFormat::automatic;
    bool add_special_tokens = false;  // encoding: those that the model puts around a text
    bool parse_special = true;        // encoding: "<s>" in the text is the token, not its letters
    bool keep_special = false;        // decoding
};

// {"ids": [...], "tokens": [...]}: tokens in the vocabulary's own spelling.
LineAnswer encode_line(const Tokenizer& tokenizer, const std::string& line,
                       const TokenLineOptions& options);

// {"text": ...} of {"ids": [...]}, {"token_ids": [...]} or a bare array. An id that the vocabulary
// does not have is a fault.
LineAnswer decode_line(const Tokenizer& tokenizer, const std::string& line,
                       const TokenLineOptions& options);

}  // namespace nvllm::view
