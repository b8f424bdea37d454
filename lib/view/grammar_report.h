// What a grammar makes of a text: accepted, unfinished, or refused, where and what was allowed
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/grammar/grammar_compiler.h"

namespace nvllm::view {

struct AllowedToken {
    int32_t id = 0;
    std::string text = {};
};

struct GrammarReport {
    double compile_seconds = 0;
    // Of a text, when there was one.
    bool has_text = false;
    bool accepted = false;  // the whole text is an answer
    bool refused = false;   // no answer begins with the text; else more may follow
    size_t bytes = 0;       // before the first character that is refused, else all
    size_t characters = 0;
    std::string refused_character = {};
    // At that place, else at the end.
    bool may_end = false;
    std::string forced_text = {};
    std::vector<uint8_t> allowed_bytes = {};
    std::vector<AllowedToken> allowed_tokens = {};  // the first ones
    size_t allowed_token_count = 0;
};

// `vocab_size`: the compiler's.
Result<GrammarReport> report_grammar(GrammarCompiler& compiler, const Tokenizer& tokenizer,
                                     int32_t vocab_size, const GrammarSpec& spec,
                                     const std::optional<std::string>& text);

std::string grammar_report_text(const GrammarReport& report);
std::string grammar_report_json(const GrammarReport& report);

}  // namespace nvllm::view
