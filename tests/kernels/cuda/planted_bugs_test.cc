// The emulation finds mistakes: each planted one is reported, or makes results wrong under an order
// that the tests of real kernels use.
#include "tests/kernels/cuda/planted_bugs.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/settings.h"
#include "tests/kernels/cuda/reports.h"
#include "tests/kernels/cuda/schedules.h"

using namespace nvllm::gpu::emulation;
using planted::Bug;

namespace {

// Whether a process that runs the kernel is ended by it.
bool ends_the_program(Bug bug) {
    const pid_t child = fork();
    if (child == 0) {
        std::freopen("/dev/null", "w", stderr);  // where the sanitizer would write at length
        report_of(bug);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}

// Reported with all of these words whatever the order, and the next launch is none the worse for
// it.
void check_reported(Bug bug, const std::vector<std::string>& words) {
    for (const Settings& schedule : all_schedules()) {
        const std::string report = report_of(bug, schedule);
        CAPTURE(report);
        for (const std::string& word : words) {
            CAPTURE(word);
            CHECK(contains(report, word));
        }
        CHECK(report_of(Bug::none, schedule) == "");
    }
}

// Whether out is what the pipeline would leave.
bool is_copy(const Words& out) {
    const Words in = counted();
    for (int i = 0; i < planted::kWords; ++i) {
        if (out.at[i] != in.at[i]) return false;
    }
    return true;
}

// Of the schedules that kernels are tested under: some find the mistake, by a report or by wrong
// results.
template <typename IsRight>
void check_found(Bug bug, const std::string& report_of_hooks, IsRight is_right) {
    int found = 0;
    for (const Settings& schedule : all_schedules()) {
        Words out;
        const std::string report = report_of(
            [&](const uint32_t* in, uint32_t* to) { planted::run(bug, in, to); }, schedule, out);
        found += !report.empty() || !is_right(out);
        CAPTURE(report);
        if (has_access_hooks()) CHECK(contains(report, report_of_hooks));
    }
    CHECK(found > 0);
}

}  // namespace

TEST_CASE("a pipeline without a mistake is not reported") {
    under_all_schedules([] {
        Words out;
        CHECK(report_of([](const uint32_t* in, uint32_t* to) { planted::run(Bug::none, in, to); },
                        settings(), out) == "");
        CHECK(is_copy(out));
    });
}

TEST_CASE("a missing barrier between sums and their use is found") {
    check_found(Bug::no_barrier_before_use, "race in shared memory 'sums'", [](const Words& out) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < 128; ++i) sum += 3 * i + 1;
        for (int i = 0; i < 128; ++i) {
            if (out.at[i] != sum) return false;
        }
        return true;
    });
}

TEST_CASE("a missing barrier at the end of a stage is found") {
    check_found(Bug::no_barrier_at_end_of_stage, "shared memory 'memory'", is_copy);
}

TEST_CASE("a wait that leaves one group too many is found") {
    check_found(Bug::wait_one_too_high, "is in flight", is_copy);
}

TEST_CASE("overwriting the source of a copy in flight shows when copies are late") {
    Words out;
    const auto kernel = [](const uint32_t* in, uint32_t* to) {
        planted::run(Bug::source_overwritten_in_flight, in, to);
    };
    CHECK(report_of(kernel, {.copies = CopyTiming::late, .races = false}, out) == "");
    CHECK(out.at[1] == 2);  // as it must not be
    CHECK(report_of(kernel, {.copies = CopyTiming::early, .races = false}, out) == "");
    CHECK(out.at[1] == 1);
}

TEST_CASE("barriers that not all threads reach together are reported") {
    check_reported(Bug::thread_ends_before_barrier,
                   {"__syncthreads()", "planted_bugs.cu:", "ended"});
    check_reported(Bug::divergent_barrier, {"divergent __syncthreads()", "planted_bugs.cu:"});
    check_reported(Bug::barrier_in_half_a_warp,
                   {"cannot go on", "__syncthreads()", "shuffle_xor", "planted_bugs.cu:"});
}

TEST_CASE("a copy that nobody waits for is reported") {
    check_reported(Bug::copy_never_waited_for, {"ends without having waited", "planted_bugs.cu:"});
}

TEST_CASE("wrong masks are reported") {
    check_reported(Bug::lane_not_in_own_mask,
                   {"shuffle_xor with mask 0x0000ffff", "not in its own mask"});
    check_reported(Bug::mask_names_ended_lane, {"ballot", "ended"});
    check_reported(Bug::mask_beyond_block,
                   {"shuffle_xor with mask 0xffffffff: lane 8 does not exist", "thread"});
    check_reported(Bug::shuffle_of_lane_outside_mask, {"which is not in the mask"});
    check_reported(Bug::unequal_masks,
                   {"cannot go on", "threads 0-15 wait for shuffle_xor with mask 0x0001ffff"});
    check_reported(Bug::different_operations_meet, {"diverge", "ballot", "shuffle_xor"});
}

TEST_CASE("writing past shared memory is reported") {
    if (has_address_sanitizer()) {
        CHECK(ends_the_program(Bug::static_array_overrun));
        CHECK(ends_the_program(Bug::dynamic_memory_overrun));
        CHECK(!ends_the_program(Bug::none));
    } else if (has_access_hooks()) {
        check_reported(Bug::static_array_overrun,
                       {"writes 4 bytes at planted_bugs.cu:", "not within one array"});
        check_reported(Bug::dynamic_memory_overrun,
                       {"writes 4 bytes at planted_bugs.cu:", "not within one array"});
    } else {
        check_reported(Bug::static_array_overrun,
                       {"0 bytes past the end of shared memory 'words' (512 bytes)"});
        check_reported(Bug::dynamic_memory_overrun,
                       {"0 bytes past the end of shared memory 'dynamic' (508 bytes)"});
    }
    check_reported(Bug::no_dynamic_memory_asked_for,
                   {"dynamic shared memory 'words'", "launch gave none"});
}

TEST_CASE("misaligned and misplaced addresses are reported") {
    check_reported(Bug::misaligned_load,
                   {"a load of 16 bytes", "4 bytes past a multiple of 16", "planted_bugs.cu:"});
    check_reported(Bug::misaligned_matrix_row, {"lane 7", "8 bytes past a multiple of 16"});
    check_reported(Bug::misaligned_copy,
                   {"an asynchronous copy from global memory", "8 bytes past"});
    check_reported(Bug::matrix_row_in_global_memory, {"not in shared memory"});
    check_reported(Bug::places_out_of_order, {"lane 5",
                                              "places out of order: 1, then 1 of row 1,"
                                              " columns from 28 on",
                                              "planted_bugs.cu:"});
}

TEST_CASE("a loop that polls for nothing is reported") {
    CHECK(contains(report_of(Bug::poll_for_nothing), "polls for something"));
}

TEST_CASE("sync_warp orders the memory accesses of lanes") {
    Words out;
    under_all_schedules(
        [&] { CHECK(report_of(planted::run_lanes_in_order, settings(), out) == ""); });
}

TEST_CASE("a fence and an atomic order blocks") {
    under_all_schedules([] {
        Words out;
        CHECK(report_of(planted::run_blocks_with_fence, settings(), out) == "");
        CHECK(out.at[planted::kWords - 2] == 1 + 4 + 7 + 10 + 13);
    });
}
