// Structural tags as the engine takes them: tokens by number, and schemas that were checked.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/grammar/thread_time.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

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
