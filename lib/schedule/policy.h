// Scheduling policies: who comes in first, whose tokens are planned first, who gives up its slot or
// its blocks to whom.
#pragma once

#include <span>
#include <string_view>

#include "lib/request/sequence.h"

namespace nvllm {

struct SchedulingPolicy {
    const char* name;
    // The smaller, the sooner. Of equal ranks the earlier arrival is first.
    double (*rank)(const Sequence& sequence, double now_s);
    // Later arrivals can pass earlier ones without end: every kTurnOfOldest-th to come in is then
    // the oldest that waits, whatever its rank, and it yields to nobody until it has finished.
    bool passes_without_end;
    // The rank of a sequence changes while it waits.
    bool changes_while_waiting;
    // Whether `running` gives up its slot, not its blocks, to `waiting`; null: nobody ever does.
    bool (*pauses_for)(const Sequence& running, const Sequence& waiting, double now_s);
};

inline constexpr int32_t kTurnOfOldest = 8;
// Steps that a sequence has at least before it pauses.
inline constexpr int32_t kTimeSliceSteps = 16;

// All there are.
std::span<const SchedulingPolicy> scheduling_policies();

// The row with this name. Throws bad_config, with the names there are, when there is none.
const SchedulingPolicy& find_policy(std::string_view name);

// A strict total order. The first of all running sequences is never preempted or paused for
// another, which is what lets the system always advance.
bool ranks_before(const SchedulingPolicy& policy, const Sequence& one, const Sequence& other,
                  double now_s);

}  // namespace nvllm
