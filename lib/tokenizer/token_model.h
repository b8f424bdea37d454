// The interface of a tokenizer's model: pieces of text to ids.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/tokenizer/vocabulary.h"

namespace nvllm {

// Operations counted while encoding, so that tests can see how work grows with the text.
struct EncodeWork {
    uint64_t steps = 0;
};

// Immutable; thread-safe.
class TokenModel {
  public:
    virtual ~TokenModel() = default;
    // Appends the ids of one piece. REQUIRES: piece is valid UTF-8.
    virtual void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                          EncodeWork& work) const = 0;

    const Vocabulary& vocabulary() const { return vocabulary_; }

  protected:
    explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
    Vocabulary vocabulary_;
};

}  // namespace nvllm
