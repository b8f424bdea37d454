// Changes that the next plan carries to the worker.
#include "lib/schedule/state/worker_update.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("only sequences that the worker knows are removed, once") {
    Parts parts;
    ScheduledSequence& known = parts.add_running(endless(1, 4, 4));
    ScheduledSequence& unknown = parts.add(endless(2, 4, 4));
    parts.update.remove(known);
    parts.update.remove(known);
    parts.update.remove(unknown);
    CHECK(parts.update.removed == std::vector<SequenceId>{1});
    CHECK_FALSE(known.is_registered);
}

TEST_CASE("a plan gets everything, but no table of a sequence that it removes") {
    Parts parts;
    ScheduledSequence& one = parts.add_running(endless(1, 4, 4));
    ScheduledSequence& two = parts.add_running(endless(2, 4, 4));
    const ScheduledSequence& unknown = parts.add(endless(3, 4, 4));
    WorkerUpdate& update = parts.update;
    TableChange change{};
    change.owner = 1;
    update.change_table(one, change);
    change.owner = 2;
    update.change_table(two, change);
    change.owner = 3;
    update.change_table(unknown, change);
    CHECK(update.table_changes.size() == 2);
    CHECK(update.reads_no_blocks());
    update.copies.emplace_back();
    CHECK_FALSE(update.reads_no_blocks());
    CHECK_FALSE(update.has_moves());
    update.moves.emplace_back();
    update.num_blocks = {5};
    CHECK(update.has_moves());
    update.remove(one);
    BatchPlan plan;
    update.move_into(plan);
    CHECK(plan.removed == std::vector<SequenceId>{1});
    REQUIRE(plan.table_changes.size() == 1);
    CHECK(plan.table_changes[0].owner == 2);
    CHECK(plan.copies.size() == 1);
    CHECK(plan.num_blocks == std::vector<int32_t>{5});
    CHECK(update.reads_no_blocks());
    CHECK(update.removed.empty());
}

}  // namespace
}  // namespace nvllm
