// Structural tags as the engine takes them: tokens by number, and schemas that were checked.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/grammar/thread_time.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// Between two parts of JSON, at most: a model that may write any number of line ends does so until
// its answer is cut off. Enough for a line and the indentation of a deep document.
inline constexpr int kMostWhitespace = 20;

struct CheckedTag {
    std::string text = {};  // JSON
    // Some text of it outside the schemas has a special token's spelling in it: that token may
    // write it.
    bool spells_special_tokens = false;
};

// Faults (bad_data): no JSON, a token that the vocabulary does not have, a schema that is refused.
Result<CheckedTag> checked_structural_tag(std::string_view text, const Tokenizer& tokenizer,
                                          ThreadTime end);

}  // namespace nvllm
