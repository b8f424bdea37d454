// Whether tokens that must follow are worth a row each.
#include "lib/schedule/speculation/forced_drafts.h"

#include <algorithm>

namespace nvllm {
namespace {

constexpr int32_t kMostForced = 16;
// Of the rows that were spent on such tokens, so many at least made one. Below that they are tried
// once in a while.
constexpr double kLeastShare = 0.5;
constexpr int32_t kTryEvery = 32;
// What a verification leaves of the weight of those before it, and right ones at the beginning.
constexpr double kFades = 0.98;
constexpr double kFirstRight = 16.0;

}  // namespace

DraftTokens ForcedDrafts::propose(AnswerConstraint& constraint, int32_t most) {
    const double right = history_.recently_right + kFirstRight;
    const bool pays = right >= kLeastShare * (right + history_.recently_wrong);
    if (!pays && ++num_passed_ < kTryEvery) return {};
    DraftTokens drafts{constraint.forced_tokens(std::min(most, kMostForced)), {}};
    if (!drafts.empty()) num_passed_ = 0;
    return drafts;
}

void ForcedDrafts::count(int32_t num_drafted, int32_t num_accepted) {
    history_.num_drafted += num_drafted;
    history_.num_accepted += num_accepted;
    history_.recently_right = kFades * history_.recently_right + num_accepted;
    history_.recently_wrong = kFades * history_.recently_wrong + (num_drafted - num_accepted);
}

}  // namespace nvllm
