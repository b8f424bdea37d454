// Races that only access hooks see, and those that threads show when they give way in the middle of
// things.
#include <doctest/doctest.h>

#include "kernels/cuda_emulation/settings.h"
#include "tests/kernels/cuda/planted_bugs.h"
#include "tests/kernels/cuda/reports.h"
#include "tests/kernels/cuda/schedules.h"

using namespace nvllm::gpu::emulation;
using planted::Bug;

namespace {

void check_race(Bug bug, const char* words) {
    under_all_schedules([&] {
        const std::string report = report_of(bug, settings());
        CAPTURE(report);
        CHECK(contains(report, words));
        CHECK(contains(report, "planted_bugs.cu:"));
    });
}

}  // namespace

TEST_CASE("these tests run over kernels with access hooks") { CHECK(has_access_hooks()); }

TEST_CASE("lost updates are found, and happen when threads give way between load and store") {
    check_race(Bug::lost_updates, "race in shared memory 'count'");
    Words out;
    const auto kernel = [](const uint32_t* in, uint32_t* to) {
        planted::run(Bug::lost_updates, in, to);
    };
    CHECK(report_of(kernel, {.races = false}, out) == "");
    CHECK(out.at[0] == 128);
    CHECK(report_of(kernel, {.order = Order::random, .preempt_every = 20, .races = false}, out) ==
          "");
    CHECK(out.at[0] < 128);
}

TEST_CASE("shuffles and votes order no memory accesses") {
    check_race(Bug::shuffle_orders_no_memory, "race in shared memory 'words'");
}

TEST_CASE("blocks that touch the same bytes are reported unless fence and atomic order them") {
    check_race(Bug::blocks_hand_over_without_fence, "a thread of another block");
    check_race(Bug::blocks_write_the_same, "race in global memory");
}
