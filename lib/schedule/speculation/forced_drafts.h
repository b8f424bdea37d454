// Drafts of a text that must follow: where a grammar lets one text come and no other, its tokens
// are proposed, whatever else proposes (jump-forward decoding, after SGLang, Zheng et al. 2024).
//
// They are drafts and not answers: the same text has other tokens as well, and the model chooses
// among them as it would without.
#pragma once

#include <cstdint>

#include "lib/request/answer_constraint.h"
#include "lib/request/draft_tokens.h"
#include "lib/schedule/state/draft_history.h"

namespace nvllm {

class ForcedDrafts {
  public:
    // At most so many; empty: several texts may come, or models of late chose other tokens.
    // REQUIRES: the constraint has not ended.
    DraftTokens propose(AnswerConstraint& constraint, int32_t most);
    // A step verified some of them.
    void count(int32_t num_drafted, int32_t num_accepted);

  private:
    DraftHistory history_;    // of all sequences
    int32_t num_passed_ = 0;  // chances that were let pass since the last one that was taken
};

}  // namespace nvllm
