// Post-processors: the special tokens around an encoded text.
#pragma once

#include <memory>
#include <vector>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

// What goes before and behind the ids of one text. Immutable; thread-safe.
struct PostProcessor {
    std::vector<int32_t> before;
    std::vector<int32_t> behind;

    std::vector<int32_t> apply(std::vector<int32_t> ids) const;
};

// The "post_processor" section of tokenizer.json. Throws Error{bad_data} for one it does not know.
PostProcessor load_post_processor(const JsonView& section);

}  // namespace nvllm
