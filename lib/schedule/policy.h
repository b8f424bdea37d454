// Scheduling policies: who of the waiting is let in first, and who of the running gives up its
// blocks first.
#pragma once

#include <span>
#include <string_view>

#include "lib/request/sequence.h"

namespace nvllm {

// Both comparisons are strict total orders. Whoever yields last is never preempted for another,
// which is what lets the system always advance.
struct SchedulingPolicy {
    const char* name;
    bool (*waits_before)(const Sequence& one, const Sequence& other);
    bool (*yields_before)(const Sequence& one, const Sequence& other);
};

// All there are.
std::span<const SchedulingPolicy> scheduling_policies();

// The row with this name. Throws bad_config, with the names there are, when there is none.
const SchedulingPolicy& find_policy(std::string_view name);

}  // namespace nvllm
