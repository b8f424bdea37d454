// The table of scheduling policies.
#include "lib/schedule/policy.h"

#include <array>
#include <string>

#include "kernels/error.h"

namespace nvllm {
namespace {

// "fcfs"
double by_arrival(const Sequence&, double) { return 0.0; }

// "sjf": fewest tokens remaining.
double by_remaining(const Sequence& sequence, double) { return sequence.num_remaining(); }

// "round-robin": a sequence whose slice is used up waits behind all others.
double by_turn(const Sequence& sequence, double) { return static_cast<double>(sequence.turn); }
bool slice_is_used_up(const Sequence& running, const Sequence&, double) {
    return running.num_slice_steps >= kTimeSliceSteps;
}

// "priority": smaller numbers are more urgent.
double by_priority(const Sequence& sequence, double) { return sequence.priority; }

// "hybrid": three queues by the length of the prompt; the better queue first, and within one the
// higher priority.
struct Queue {
    int32_t fewer_tokens_than;
    double base;
    double longest_wait_s;
};
constexpr std::array<Queue, 3> kQueues = {
    {{100, 100.0, 0.050}, {501, 50.0, 0.200}, {INT32_MAX, 10.0, 1.000}}};
constexpr double kPriorityPerMinute = 5.0;
constexpr double kPriorityPerToken = 0.1;
// More than any difference of priorities.
constexpr double kBetweenQueues = 1e9;

size_t queue_by_length(const Sequence& sequence) {
    size_t queue = 0;
    while (sequence.num_prompt_tokens >= kQueues[queue].fewer_tokens_than) ++queue;
    return queue;
}

// The present queue of a sequence: one up for each queue's limit that it has waited beyond; -1 is
// before the first queue.
int current_queue(const Sequence& sequence, double now_s) {
    auto queue = static_cast<int>(queue_by_length(sequence));
    double waited = sequence.waited(now_s);
    while (queue >= 0 && waited > kQueues[static_cast<size_t>(queue)].longest_wait_s) {
        waited -= kQueues[static_cast<size_t>(queue)].longest_wait_s;
        --queue;
    }
    return queue;
}

double by_queue_and_priority(const Sequence& sequence, double now_s) {
    const double priority = kQueues[queue_by_length(sequence)].base +
                            kPriorityPerMinute * sequence.waited(now_s) / 60.0 -
                            kPriorityPerToken * sequence.num_remaining();
    return current_queue(sequence, now_s) * kBetweenQueues - priority;
}

bool is_in_a_lower_queue(const Sequence& running, const Sequence& waiting, double now_s) {
    return running.num_slice_steps >= kTimeSliceSteps &&
           current_queue(waiting, now_s) < current_queue(running, now_s);
}

constexpr SchedulingPolicy kPolicies[] = {
    {"fcfs", by_arrival, false, false, nullptr},
    {"sjf", by_remaining, true, false, nullptr},
    {"round-robin", by_turn, false, false, slice_is_used_up},
    {"priority", by_priority, true, false, nullptr},
    {"hybrid", by_queue_and_priority, true, true, is_in_a_lower_queue},
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

bool ranks_before(const SchedulingPolicy& policy, const Sequence& one, const Sequence& other,
                  double now_s) {
    if (one.is_aged != other.is_aged) return one.is_aged;
    if (!one.is_aged) {
        const double rank = policy.rank(one, now_s);
        const double other_rank = policy.rank(other, now_s);
        if (rank != other_rank) return rank < other_rank;
    }
    return one.id < other.id;  // ids grow in the order of arrival
}

}  // namespace nvllm
