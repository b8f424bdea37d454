// Grammars over a small byte-level vocabulary, for tests.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/grammar/grammar_compiler.h"
#include "lib/grammar/grammar_matcher.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

namespace nvllm::test {

constexpr int32_t kEnd = 260;         // "<|end|>"
constexpr int32_t kUser = 261;        // "<|user|>", special as well
constexpr int32_t kVocabulary = 300;  // of the model; ids from 262 on are no tokens

inline GrammarCompiler small_compiler(GrammarLimits limits = {}) {
    return GrammarCompiler(tokenizer_of(byte_level_json()), kVocabulary, {kEnd}, limits);
}

// One for all tests that need no limits of their own.
inline GrammarCompiler& shared_compiler() {
    static GrammarCompiler compiler = small_compiler();
    return compiler;
}

inline SharedGrammar compiled(GrammarKind kind, const std::string& text) {
    auto grammar = shared_compiler().compile({kind, text});
    REQUIRE_MESSAGE(grammar.ok(), (grammar.ok() ? "" : grammar.fault().message));
    return *grammar;
}

inline std::string fault_of(GrammarKind kind, const std::string& text) {
    const auto grammar = shared_compiler().compile({kind, text});
    return grammar.ok() ? "" : grammar.fault().message;
}

// The whole text is an answer.
inline bool matches(const SharedGrammar& grammar, std::string_view text) {
    GrammarMatcher matcher(grammar);
    return matcher.accept_text(text) && matcher.may_end();
}

inline bool matches(GrammarKind kind, const std::string& grammar, std::string_view text) {
    return matches(compiled(kind, grammar), text);
}

inline std::vector<int32_t> allowed_tokens(GrammarMatcher& matcher) {
    std::vector<uint32_t> mask((kVocabulary + 31) / 32);
    std::vector<int32_t> tokens;
    const bool restricted = matcher.fill_mask(mask);
    for (int32_t id = 0; id < kVocabulary; ++id)
        if (!restricted || (mask[id / 32] >> (id % 32) & 1) != 0) tokens.push_back(id);
    return tokens;
}

// The byte as a token.
inline int32_t token(char byte) { return static_cast<unsigned char>(byte); }

}  // namespace nvllm::test
