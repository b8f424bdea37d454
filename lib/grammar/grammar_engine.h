// What GrammarCompiler needs of a grammar engine: one spec compiled, and its size. Of its two
// implementations (engine/, no_engine/) one is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/grammar/grammar_compiler.h"

namespace nvllm {

// Thread-safe.
class GrammarEngine {
  public:
    GrammarEngine(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                  std::vector<int32_t> end_tokens);
    ~GrammarEngine();

    // On the caller's thread; within the limits of time and of one grammar's size.
    Result<SharedGrammar> compile(const GrammarSpec& spec, const GrammarLimits& limits);

    static size_t bytes_of(const CompiledGrammar& grammar);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace nvllm
