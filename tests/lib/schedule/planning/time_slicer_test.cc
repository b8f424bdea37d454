// Slots that pass between sequences.
#include "lib/schedule/planning/time_slicer.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

SchedulerConfig one_slot() {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 1;
    config.policy = "round-robin";
    return config;
}

TEST_CASE("a sequence pauses for a waiting one when its slice is used up") {
    Parts parts(one_slot());
    ScheduledSequence& running = parts.add_running(endless(1, 4, 90));
    parts.add(endless(2, 4, 4));
    parts.slicer.pause_for_waiting();
    CHECK(parts.running.size() == 1);
    running.sequence.num_slice_steps = kTimeSliceSteps;
    SUBCASE("at once") {
        parts.slicer.pause_for_waiting();
        CHECK(parts.running.empty());
        CHECK(running.sequence.state == SequenceState::paused);
        CHECK(parts.context.counters.pauses == 1);
        CHECK_FALSE(running.cache.empty());
    }
    SUBCASE("at its commit") {
        running.num_plans = 1;
        parts.slicer.pause_for_waiting();
        CHECK(parts.running.size() == 1);
        CHECK(running.removal == PendingRemoval::pause);
        CHECK_FALSE(running.can_be_planned());
    }
    SUBCASE("not an aged one") {
        running.sequence.is_aged = true;
        parts.slicer.pause_for_waiting();
        CHECK(parts.running.size() == 1);
    }
}

TEST_CASE("paused sequences run again in free slots, unless their client is slow") {
    Parts parts(one_slot());
    ScheduledSequence& paused = parts.add_running(endless(1, 4, 90));
    parts.preemptor.pause(paused);
    parts.running.remove_left();
    parts.backpressure.pause(1);
    parts.slicer.resume_paused(false);
    CHECK(paused.sequence.state == SequenceState::paused);
    parts.backpressure.resume(1);
    ScheduledSequence& ready = parts.add(endless(2, 4, 4));
    ready.sequence.turn = 0;
    parts.waiting.remove(ready);
    parts.waiting.add(ready, 0.0);
    parts.slicer.resume_paused(true);  // the ready one is before it
    CHECK(paused.sequence.state == SequenceState::paused);
    parts.slicer.resume_paused(false);
    CHECK(paused.sequence.state == SequenceState::running);
    CHECK(parts.running.size() == 1);
}

}  // namespace
}  // namespace nvllm
