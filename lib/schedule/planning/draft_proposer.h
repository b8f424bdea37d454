// Proposes draft tokens without the model.
#pragma once

#include <string>

#include "lib/request/draft_tokens.h"
#include "lib/request/sequence.h"

namespace nvllm {

class DraftProposer {
  public:
    virtual ~DraftProposer() = default;
    // Draft tokens that may follow the last known token of the sequence; empty: none. Requests with
    // different salts learn nothing of each other.
    virtual DraftTokens propose(const Sequence& sequence, const std::string& cache_salt) = 0;
    // An answer has come to its end.
    virtual void learn(const Sequence& /*sequence*/, const std::string& /*cache_salt*/) {}
};

}  // namespace nvllm
