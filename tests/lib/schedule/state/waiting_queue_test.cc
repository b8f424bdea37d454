// The order of the waiting queue.
#include "lib/schedule/state/waiting_queue.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

std::vector<SequenceId> ids(const WaitingQueue& queue) {
    std::vector<SequenceId> ids;
    for (const ScheduledSequence* scheduled : queue.all()) ids.push_back(scheduled->sequence.id);
    return ids;
}

TEST_CASE("under fcfs a sequence that comes back is before all later ones") {
    Parts parts;
    for (RequestId id = 1; id <= 3; ++id) parts.add(endless(id, 4, 4));
    ScheduledSequence& first = parts.waiting[0];
    parts.waiting.remove(first);
    CHECK(ids(parts.waiting) == std::vector<SequenceId>{2, 3});
    parts.waiting.add(first, 0.0);
    CHECK(ids(parts.waiting) == std::vector<SequenceId>{1, 2, 3});
    parts.waiting.remove_at(1);
    CHECK(ids(parts.waiting) == std::vector<SequenceId>{1, 3});
    parts.waiting.remove(first);
    parts.waiting.remove(first);  // not in the queue: nothing happens
    CHECK(parts.waiting.size() == 1);
}

TEST_CASE("swapped sequences precede all others") {
    Parts parts(small_config(), {.block_size = 4, .groups = {{16, 0, 16}}});
    parts.add(endless(1, 4, 4));
    ScheduledSequence& last = parts.add_running(endless(2, 4, 4));
    last.sequence.swap_out(1.0);
    parts.waiting.add(last, 1.0);
    CHECK(ids(parts.waiting) == std::vector<SequenceId>{2, 1});
    CHECK(parts.waiting.precedes(last, parts.waiting[1], 1.0));
}

TEST_CASE("sort() follows ranks that change with time") {
    SchedulerConfig config = small_config();
    config.policy = "hybrid";
    Parts parts(config);
    Request long_prompt = endless(1, 120, 4);
    parts.add(long_prompt);
    parts.add(endless(2, 110, 4));
    Request late = endless(3, 4, 4);
    late.arrival_s = 100.0;
    parts.context.now_s = 100.0;
    parts.add(late);
    parts.waiting.sort(0.0);
    CHECK(ids(parts.waiting) == std::vector<SequenceId>{3, 2, 1});
    // After the limits of their queues the long prompts are before all of the first queue.
    parts.waiting.sort(100.0);
    CHECK(ids(parts.waiting).back() == 3);
}

TEST_CASE("turns ascend") {
    Parts parts;
    const uint64_t first = parts.waiting.next_turn();
    CHECK(parts.waiting.next_turn() == first + 1);
}

}  // namespace
}  // namespace nvllm
