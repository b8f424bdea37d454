// Grammars in words that the engine reads: llama.cpp's GBNF, and lists of texts.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace nvllm {

// The engine's EBNF for a grammar in EBNF or GBNF, whose start is "root". Faults (bad_data) say
// where, by line.
Result<std::string> ebnf_of_grammar(std::string_view text);

// For a JSON list of texts, one of which is the answer.
Result<std::string> ebnf_of_choice(std::string_view json);

// How deeply parentheses are nested; those in quotes and brackets and after a backslash do not
// count.
size_t nesting_of(std::string_view text);

}  // namespace nvllm
