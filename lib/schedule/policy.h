// Scheduling policies: the order of admission and of planning, and which sequence gives up its slot
// or its blocks to which.
#pragma once

#include <span>
#include <string_view>

#include "lib/request/sequence.h"

namespace nvllm {

struct SchedulingPolicy {
    const char* name;
    // The smaller, the sooner. Of equal ranks the earlier arrival is first.
    double (*rank)(const Sequence& sequence, double now_s);
    // Later arrivals can pass earlier ones without end. Against starvation, every kAgingInterval-th
    // admission is then of the oldest waiting sequence, whatever its rank; it is not preempted or
    // paused for another until it has finished.
    bool passes_without_end;
    // The rank of a sequence changes while it waits.
    bool changes_while_waiting;
    // Whether `running` gives up its slot, not its blocks, to `waiting`; null: never.
    bool (*pauses_for)(const Sequence& running, const Sequence& waiting, double now_s);
};

inline constexpr int32_t kAgingInterval = 8;
// The least number of steps of a sequence before it pauses.
inline constexpr int32_t kTimeSliceSteps = 16;

std::span<const SchedulingPolicy> scheduling_policies();

// The row with this name. Throws bad_config, with the names of all rows, if there is none.
const SchedulingPolicy& find_policy(std::string_view name);

// A strict total order. The first of all running sequences is never preempted or paused for
// another: this lets the system always advance.
bool ranks_before(const SchedulingPolicy& policy, const Sequence& one, const Sequence& other,
                  double now_s);

}  // namespace nvllm
