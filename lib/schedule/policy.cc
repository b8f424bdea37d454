// The table of scheduling policies.
#include "lib/schedule/policy.h"

#include <string>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Sequence ids grow in the order of arrival.
bool arrived_before(const Sequence& one, const Sequence& other) { return one.id < other.id; }
bool arrived_after(const Sequence& one, const Sequence& other) { return one.id > other.id; }

bool more_urgent(const Sequence& one, const Sequence& other) {
    if (one.priority != other.priority) return one.priority < other.priority;
    return arrived_before(one, other);
}
bool less_urgent(const Sequence& one, const Sequence& other) { return more_urgent(other, one); }

constexpr SchedulingPolicy kPolicies[] = {
    {"fcfs", arrived_before, arrived_after},
    {"priority", more_urgent, less_urgent},
};

}  // namespace

std::span<const SchedulingPolicy> scheduling_policies() { return kPolicies; }

const SchedulingPolicy& find_policy(std::string_view name) {
    std::string names;
    for (const SchedulingPolicy& policy : kPolicies) {
        if (policy.name == name) return policy;
        names += (names.empty() ? "" : ", ") + std::string(policy.name);
    }
    throw Error(ErrorKind::bad_config, "--scheduling-policy is \"" + std::string(name) +
                                           "\"; it must be one of: " + names);
}

}  // namespace nvllm
