// Proposes draft tokens without the model.
#pragma once

#include "lib/request/draft_tokens.h"
#include "lib/request/sequence.h"

namespace nvllm {

class DraftProposer {
  public:
    virtual ~DraftProposer() = default;
    // Draft tokens that may follow the last known token of the sequence; empty: none.
    virtual DraftTokens propose(const Sequence& sequence) = 0;
};

}  // namespace nvllm
