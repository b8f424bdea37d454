// The patterns of tokenizer.json ({"String": ...} or {"Regex": ...}) and the ways of splitting at
// their matches.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lib/tokenizer/json_view.h"
#include "lib/tokenizer/unicode/regex.h"

namespace nvllm {

Regex load_pattern(const JsonView& pattern);

// What becomes of the matches: pieces of their own, dropped, joined with a neighbour, or runs
// joined.
enum class SplitBehaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// Throws Error{bad_data} for an unknown name.
SplitBehaviour load_split_behaviour(const JsonView& name);

// A part of a text that is, or is not, a match.
struct SplitPart {
    ByteRange range;
    bool match = false;
};

// The pieces that remain of parts that cover a text.
std::vector<ByteRange> join_parts(const std::vector<SplitPart>& parts, SplitBehaviour behaviour);

// The parts of `text` by the matches of `regex`; `invert` exchanges what counts as a match.
std::vector<SplitPart> split_parts(const Regex& regex, std::string_view text, bool invert);

}  // namespace nvllm
