// From what a request asks for to what a sequence is held to, within limits of time and size.
//
// The only door to the grammar engine (xgrammar's core, docs/structured-output.md): another one
// could take its place behind this header and grammar_matcher.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/grammar/grammar_spec.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

struct GrammarLimits {
    double seconds = 2.0;                       // to compile one
    size_t text_bytes = size_t{1} << 20;        // of a GrammarSpec
    size_t compiled_bytes = size_t{256} << 20;  // of one
    size_t cached_bytes = size_t{512} << 20;    // of all that are kept; the least recently used go
};

// A compiled grammar: immutable, shared by the sequences that are held to it.
class CompiledGrammar;
using SharedGrammar = std::shared_ptr<const CompiledGrammar>;

// Thread-safe. Compiles on the caller's thread, which may take GrammarLimits::seconds: never on an
// I/O or engine thread. Equal specs are compiled once.
class GrammarCompiler {
  public:
    // `vocab_size`: the model's, which may exceed the tokenizer's; ids that the tokenizer does not
    // know are never allowed. `end_tokens`: those that may end an answer once it is whole.
    GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                    std::vector<int32_t> end_tokens, GrammarLimits limits = {});
    ~GrammarCompiler();

    // Faults (bad_data) say what is wrong and where: a text that does not parse, a keyword of a
    // schema that cannot be held to, a limit that is exceeded.
    Result<SharedGrammar> compile(const GrammarSpec& spec);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Whether a grammar engine is built in (NVLLM_GRAMMAR); without one compile() says so in a fault.
bool has_grammar_engine();

}  // namespace nvllm
