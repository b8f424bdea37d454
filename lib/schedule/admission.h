// Who may come in: which requests can ever run, and which of the waiting sequences is next.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/cache_manager.h"
#include "lib/schedule/policy.h"
#include "lib/schedule/scheduled_sequence.h"
#include "lib/schedule/scheduler_config.h"

namespace nvllm {

// Prompt and answer together, at most.
int32_t longest_length(const SchedulerConfig& config, int32_t num_prompt_tokens,
                       const Request& request);

// Of a request of such a length: chosen for good, from what it may become.
int32_t rope_choice(const SchedulerConfig& config, int32_t length, const Request& request);

// Blocks of a group that a request of such a length holds at most at any time. Beams advance
// together, so all of them must fit at once.
int32_t most_blocks(const SchedulerConfig& config, const CacheManager& cache, int32_t group,
                    int32_t length, const Request& request);

// Why the request can never run, with the numbers and the flag to change; empty when it can.
std::optional<Fault> why_never(const SchedulerConfig& config, const CacheManager& cache,
                               const Request& request);

// The sequences that wait or pause, in the policy's order: one that was preempted stands where it
// would have stood all along, under "fcfs" before all that came later. Those that were swapped out,
// and beams whose siblings wait for them, stand before all others.
class WaitingQueue {
  public:
    explicit WaitingQueue(const SchedulingPolicy& policy) : policy_(policy) {}

    // Brings the order up to date for a policy whose ranks change while a sequence waits.
    void sort(double now_s);

    bool empty() const { return sequences_.empty(); }
    size_t size() const { return sequences_.size(); }
    ScheduledSequence& operator[](size_t place) const { return *sequences_[place]; }
    std::span<ScheduledSequence* const> all() const { return sequences_; }
    bool stands_before(const ScheduledSequence& one, const ScheduledSequence& other,
                       double now_s) const;
    void add(ScheduledSequence& sequence, double now_s);
    void remove(const ScheduledSequence& sequence);
    void remove_at(size_t place) {
        sequences_.erase(sequences_.begin() + static_cast<long>(place));
    }

  private:
    const SchedulingPolicy& policy_;
    std::vector<ScheduledSequence*> sequences_;
};

}  // namespace nvllm
