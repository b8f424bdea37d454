// Answers that are held to grammars: compiled once for a model, followed by each sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/result.h"
#include "lib/grammar/grammar_compiler.h"
#include "lib/request/answer_constraint.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// Thread-safe. Costs nothing until the first grammar is asked for.
class AnswerGrammars {
  public:
    // `tokenizer`: null for a model that has none. `end_tokens`: the model's.
    AnswerGrammars(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                   std::vector<int32_t> end_tokens);
    ~AnswerGrammars();

    // On the caller's thread, which it may take GrammarLimits::seconds. Faults are the request's.
    Result<std::shared_ptr<const AnswerConstraintSource>> compile(const GrammarSpec& spec);

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
    int32_t vocab_size_;
    std::vector<int32_t> end_tokens_;
    std::once_flag made_;
    std::unique_ptr<GrammarCompiler> compiler_;
};

}  // namespace nvllm
