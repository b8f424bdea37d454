// The position of one sequence in its grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/grammar/grammar_compiler.h"

namespace nvllm {

// Not thread-safe; one a sequence. Copies are at the same position and go on apart (n > 1, beams).
class GrammarMatcher {
  public:
    explicit GrammarMatcher(SharedGrammar grammar);
    GrammarMatcher(const GrammarMatcher& other);
    GrammarMatcher(GrammarMatcher&&) noexcept;
    GrammarMatcher& operator=(GrammarMatcher) noexcept;
    ~GrammarMatcher();

    // The tokens that may come next, u32 [(vocab + 31) / 32], bit i of word w being token 32 w + i.
    // False: all may, and the mask was left alone.
    bool fill_mask(std::span<uint32_t> mask);
    // Goes on by a token. False: it may not come here, and the position is as before.
    bool accept(int32_t token);
    // The same for the bytes of a text; for tests and for showing what a grammar refuses.
    bool accept_text(std::string_view text);
    // Takes back the last `tokens` accepted ones, the end token included.
    void rollback(int32_t tokens);
    // The text that must follow, where only one can; else empty. UTF-8 that is whole.
    std::string forced_text();
    // The answer may end here (an end token is allowed).
    bool may_end() const;
    // An end token was accepted: nothing more may come.
    bool has_ended() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace nvllm
