// Constraints over the grammar engine's matchers.
#include "lib/engine/answer_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "kernels/error.h"
#include "lib/base/log.h"
#include "lib/grammar/grammar_matcher.h"

namespace nvllm {
namespace {

class GrammarConstraint : public AnswerConstraint {
  public:
    GrammarConstraint(const SharedGrammar& grammar, std::shared_ptr<const Tokenizer> tokenizer)
        : matcher_(grammar), tokenizer_(std::move(tokenizer)) {}

    bool fill_mask(std::span<uint32_t> mask) override { return matcher_.fill_mask(mask); }
    bool accept(int32_t token) override {
        if (!matcher_.accept(token)) return false;
        const bool is_forced = num_come_ < forced_.size() && forced_[num_come_] == token;
        is_forced ? void(++num_come_) : forget_forced();
        return true;
    }
    void rollback(int32_t tokens) override {
        matcher_.rollback(tokens);
        const auto count = static_cast<size_t>(tokens);
        count <= num_come_ ? void(num_come_ -= count) : forget_forced();
    }
    bool has_ended() const override { return matcher_.has_ended(); }

    std::vector<int32_t> forced_tokens(int32_t most) override {
        if (num_come_ == forced_.size()) list_forced();
        const size_t count = std::min(static_cast<size_t>(most), forced_.size() - num_come_);
        const auto begin = forced_.begin() + static_cast<std::ptrdiff_t>(num_come_);
        return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }

  private:
    void forget_forced() {
        forced_.clear();
        num_come_ = 0;
    }
    void list_forced() {
        forget_forced();
        const std::string text = matcher_.forced_text();
        if (text.empty()) return;
        try {
            forced_ = tokenizer_->encode(
                text, {.add_special_tokens = false, .recognise_special_tokens = false});
        } catch (const Error& error) {
            log_debug(fmt::format("a text that must follow has no tokens: {}", error.what()));
        }
    }

    GrammarMatcher matcher_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    // Tokens of a text that must follow, kept until they have come: it may be long.
    std::vector<int32_t> forced_;
    size_t num_come_ = 0;  // of those
};

class GrammarSource : public AnswerConstraintSource {
  public:
    GrammarSource(SharedGrammar grammar, std::shared_ptr<const Tokenizer> tokenizer,
                  int32_t vocab_size)
        : grammar_(std::move(grammar)),
          tokenizer_(std::move(tokenizer)),
          mask_words_((static_cast<size_t>(vocab_size) + 31) / 32) {}

    std::unique_ptr<AnswerConstraint> begin() const override {
        return std::make_unique<GrammarConstraint>(grammar_, tokenizer_);
    }
    size_t mask_words() const override { return mask_words_; }

  private:
    SharedGrammar grammar_;
    std::shared_ptr<const Tokenizer> tokenizer_;
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
        std::make_shared<GrammarSource>(std::move(*grammar), tokenizer_, vocab_size_));
}

}  // namespace nvllm
