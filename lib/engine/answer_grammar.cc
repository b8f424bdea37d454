// Constraints over the grammar engine's matchers.
#include "lib/engine/answer_grammar.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "lib/base/log.h"
#include "lib/grammar/grammar_matcher.h"

namespace nvllm {
namespace {

class GrammarConstraint : public AnswerConstraint {
  public:
    explicit GrammarConstraint(const SharedGrammar& grammar) : matcher_(grammar) {}

    bool fill_mask(std::span<uint32_t> mask) override { return matcher_.fill_mask(mask); }
    bool accept(int32_t token) override { return matcher_.accept(token); }
    void rollback(int32_t tokens) override { matcher_.rollback(tokens); }
    bool has_ended() const override { return matcher_.has_ended(); }

  private:
    GrammarMatcher matcher_;
};

class GrammarSource : public AnswerConstraintSource {
  public:
    GrammarSource(SharedGrammar grammar, int32_t vocab_size)
        : grammar_(std::move(grammar)), mask_words_((static_cast<size_t>(vocab_size) + 31) / 32) {}

    std::unique_ptr<AnswerConstraint> begin() const override {
        return std::make_unique<GrammarConstraint>(grammar_);
    }
    size_t mask_words() const override { return mask_words_; }

  private:
    SharedGrammar grammar_;
    size_t mask_words_;
};

}  // namespace

AnswerGrammars::AnswerGrammars(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                               std::vector<int32_t> end_tokens)
    : tokenizer_(std::move(tokenizer)),
      vocab_size_(vocab_size),
      end_tokens_(std::move(end_tokens)) {}

AnswerGrammars::~AnswerGrammars() = default;

Result<std::shared_ptr<const AnswerConstraintSource>> AnswerGrammars::compile(
    const GrammarSpec& spec) {
    if (tokenizer_ == nullptr) {
        return Fault{ErrorKind::bad_data,
                     "this model has no tokenizer, so no grammar can say which tokens may come"};
    }
    if (end_tokens_.empty()) {
        return Fault{ErrorKind::bad_data,
                     "this model has no end token, so an answer that is held to a grammar could "
                     "not end"};
    }
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    std::call_once(made_, [this] {
        compiler_ = std::make_unique<GrammarCompiler>(tokenizer_, vocab_size_, end_tokens_);
    });
    Result<SharedGrammar> grammar = compiler_->compile(spec);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    log_debug(fmt::format("a grammar of {} bytes was {} in {:.1f} ms", spec.text.size(),
                          grammar ? "compiled" : "refused", took.count()));
    if (!grammar) return grammar.fault();
    return std::shared_ptr<const AnswerConstraintSource>(
        std::make_shared<GrammarSource>(std::move(*grammar), vocab_size_));
}

}  // namespace nvllm
