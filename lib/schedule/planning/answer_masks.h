// Sequences that are held to something: which tokens a plan lets them choose, and how they go on.
#pragma once

#include <cstdint>
#include <span>

#include "lib/request/answer_constraint.h"
#include "lib/request/draft_tokens.h"
#include "lib/schedule/planning/plan_builder.h"

namespace nvllm {

// Gives each entry that samples, of a sequence with a constraint, a mask for each row that samples.
// After the drafts, as the last change of a plan.
void add_token_masks(PlanBuilder& builder);

// Leaves the drafts that the constraint lets through, each behind those that it follows. The
// position stays.
void drop_refused(AnswerConstraint& constraint, DraftTokens& drafts);

// The sequence goes on by these tokens, if it has a constraint. False: one of them may not come.
bool advance_constraint(ScheduledSequence& scheduled, std::span<const int32_t> tokens);

}  // namespace nvllm
