// White space between two parts of JSON: a model that may write any number of line ends often does
// so until its answer is cut off.
//
// The grammar leaves it free, so that any answer that a schema allows is accepted; masks alone
// steer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// Bytes after which no token of white space alone is offered, where another may come. Enough for a
// line end and the indentation of a deep document.
inline constexpr int32_t kMostWhitespace = 20;

// The tokens of a vocabulary that are white space alone. Immutable.
class WhitespaceTokens {
  public:
    WhitespaceTokens(const Tokenizer& tokenizer, int32_t vocab_size);

    // Bytes of such a token; 0 for others.
    int32_t bytes_of(int32_t token) const {
        const auto id = static_cast<size_t>(token);
        return id < bytes_.size() ? bytes_[id] : 0;
    }
    // u32 [(vocab + 31) / 32], a mask of them.
    std::span<const uint32_t> mask() const { return mask_; }
    // One that JSON has in its texts alone: where it may come, white space is part of a text.
    std::optional<int32_t> letter() const { return letter_; }

  private:
    std::vector<uint8_t> bytes_;  // by token
    std::vector<uint32_t> mask_;
    std::optional<int32_t> letter_;
};

// The white space at the end of what one sequence has written.
class WhitespaceRun {
  public:
    // `tokens`: null for what is no JSON: then nothing is limited.
    explicit WhitespaceRun(std::shared_ptr<const WhitespaceTokens> tokens)
        : tokens_(std::move(tokens)) {}

    void accept(int32_t token) {
        if (tokens_ != nullptr) add(tokens_->bytes_of(token));
    }
    void accept_text() {
        if (tokens_ != nullptr) add(0);
    }
    // Takes back the last accepted tokens and texts.
    void rollback(int32_t count) {
        lengths_.resize(lengths_.size() - std::min(lengths_.size(), static_cast<size_t>(count)));
    }
    // Of the tokens that may come next, those that should.
    void limit(std::span<uint32_t> mask) const;

  private:
    void add(int32_t bytes) {
        const int32_t before = lengths_.empty() ? 0 : lengths_.back();
        lengths_.push_back(bytes == 0 ? uint8_t{0}
                                      : static_cast<uint8_t>(std::min(before + bytes, 255)));
    }

    std::shared_ptr<const WhitespaceTokens> tokens_;
    std::vector<uint8_t> lengths_;  // after each, at most 255
};

}  // namespace nvllm
