// Token ids to text as they come: what is safe to show, and what is held back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// One stream of ids. All pieces of append() and finish() together are exactly what
// Tokenizer::decode gives for all ids. Not thread-safe; time is linear in the ids.
class Detokenizer {
  public:
    // `context`: the ids that come before (a prompt); what is given is the text that follows
    // theirs. The more of them the better: all of the prompt is always right.
    // `kept_special`: special tokens that are given although the others are skipped.
    Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens,
                std::span<const int32_t> context = {}, std::vector<int32_t> kept_special = {});
    ~Detokenizer();
    Detokenizer(Detokenizer&&) noexcept;
    Detokenizer& operator=(Detokenizer&&) noexcept;

    // The text that is now certain; often empty. Never half a character. Unknown ids give nothing.
    std::string append(int32_t id);
    // What was still held back; broken bytes as U+FFFD. Call once; append() may not follow.
    std::string finish();

  private:
    class Chain;
    std::string take();

    std::shared_ptr<const Tokenizer> tokenizer_;
    bool skip_special_tokens_;
    std::vector<int32_t> kept_special_;
    std::unique_ptr<Chain> chain_;
    size_t to_skip_ = 0;  // bytes still to come that belong to the context
};

}  // namespace nvllm
