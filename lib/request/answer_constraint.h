// What the tokens of an answer must be, by their ids alone: the bookkeeping half knows no grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nvllm {

// How far one sequence has come. It stands at the sequence's committed tokens: a preemption or a
// lost worker changes nothing here. Not thread-safe, and it never throws: what goes wrong in it
// leaves no token to choose, which ends the one request.
class AnswerConstraint {
  public:
    virtual ~AnswerConstraint() = default;

    // The tokens that may come next, a row of EntryExtras::token_mask. False: all may, and the mask
    // was left alone. REQUIRES: it has not ended.
    virtual bool fill_mask(std::span<uint32_t> mask) = 0;
    // Goes on by a token. False: it may not come here, and the position is as before.
    virtual bool accept(int32_t token) = 0;
    // Takes back the last `tokens` accepted ones.
    virtual void rollback(int32_t tokens) = 0;
    // An end token was accepted: nothing more may come.
    virtual bool has_ended() const = 0;
    // Where one text alone may come next: tokens that write it, at most so many; empty where
    // several may. A guess, since other tokens may write the same. REQUIRES: it has not ended.
    virtual std::vector<int32_t> forced_tokens(int32_t /*most*/) { return {}; }
};

// What a request is held to: immutable, shared by its sequences, thread-safe.
class AnswerConstraintSource {
  public:
    virtual ~AnswerConstraintSource() = default;

    // For a sequence that has generated nothing yet.
    virtual std::unique_ptr<AnswerConstraint> begin() const = 0;
    // Words of a mask's row: (vocab + 31) / 32.
    virtual size_t mask_words() const = 0;
};

}  // namespace nvllm
