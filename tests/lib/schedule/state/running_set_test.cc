// Slots of running sequences and of beam groups.
#include "lib/schedule/state/running_set.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("a sequence that left stays in the list until remove_left()") {
    Parts parts;
    ScheduledSequence& one = parts.add_running(endless(1, 4, 4));
    parts.add_running(endless(2, 4, 4));
    CHECK(parts.running.size() == 2);
    CHECK(parts.running.num_free_slots() == 6);
    one.sequence.pause(1.0);
    parts.running.remove_left();  // nothing was marked
    CHECK(parts.running.size() == 2);
    parts.running.mark_left();
    parts.running.remove_left();
    CHECK(parts.running.size() == 1);
    CHECK(parts.running.all()[0]->sequence.id == 2);
}

TEST_CASE("beam groups hold slots for all their beams") {
    RunningSet running(8);
    running.reserve_slots(3);
    CHECK(running.num_free_slots() == 5);
    CHECK(running.num_reserved_slots() == 3);
    running.release_slots(3);
    CHECK(running.num_free_slots() == 8);
}

}  // namespace
}  // namespace nvllm
