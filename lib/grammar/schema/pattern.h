// ECMAScript's regular expressions in the engine's words: what the engine would ignore is refused.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace nvllm {

enum class PatternUse {
    whole,   // the text is matched from its first character to its last
    search,  // somewhere in the text, as a schema's "pattern" is, unless ^ and $ say otherwise
};

// ASCII. Faults (bad_data) say what cannot be held to: assertions inside, backreferences, ...
Result<std::string> engine_pattern(std::string_view pattern, PatternUse use);

}  // namespace nvllm
