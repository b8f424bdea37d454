// The token budget under a target for the time of a step.
#include "lib/schedule/step_time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace nvllm {
namespace {

StepTimeController at_40_ms() {
    return StepTimeController({.target_ms = 40.0, .most_tokens = 1000, .min_tokens = 50});
}

// A step that used all of its budget.
StepObservation step(const StepTimeController& controller, double ms) {
    return {.step_ms = ms, .num_tokens = controller.budget()};
}

TEST_CASE("step time: a slow step cuts a fifth, a fast one adds a tenth, once each") {
    StepTimeController controller = at_40_ms();
    controller.observe(step(controller, 51.0));
    CHECK(controller.budget() == 800);
    controller.observe(step(controller, 51.0));  // planned before the cut
    CHECK(controller.budget() == 800);
    controller.observe(step(controller, 29.0));
    CHECK(controller.budget() == 880);
    CHECK(controller.num_cuts() == 1);
    CHECK(controller.num_raises() == 1);
}

TEST_CASE("step time: little free memory cuts a quarter when it begins and while it lasts") {
    StepTimeController controller = at_40_ms();
    StepObservation low = step(controller, 40.0);
    low.free_memory_share = 0.14;
    controller.observe(low);
    CHECK(controller.budget() == 750);
    for (int i = 0; i < 15; ++i) controller.observe(low);
    CHECK(controller.budget() > 700);
    controller.observe(low);
    CHECK(controller.num_cuts() == 2);
    StepObservation fragmented = step(controller, 40.0);
    const int32_t before = controller.budget();
    fragmented.fragmentation = 0.5;
    controller.observe(fragmented);
    CHECK(controller.budget() == doctest::Approx(before * 0.9).epsilon(0.01));
}

TEST_CASE("step time: a short step of few tokens says nothing") {
    StepTimeController controller = at_40_ms();
    controller.observe({.step_ms = 51.0, .num_tokens = 1000});
    controller.observe({.step_ms = 5.0, .num_tokens = 10});
    controller.observe({.step_ms = 5.0, .num_tokens = 10});
    CHECK(controller.budget() == 800);
}

TEST_CASE("step time: limits hold, and without a target nothing changes") {
    StepTimeController controller = at_40_ms();
    for (int i = 0; i < 100; ++i) controller.observe(step(controller, 500.0));
    CHECK(controller.budget() == 50);
    for (int i = 0; i < 100; ++i) controller.observe(step(controller, 1.0));
    CHECK(controller.budget() == 1000);
    StepTimeController off({.target_ms = 0.0, .most_tokens = 1000});
    for (int i = 0; i < 10; ++i) off.observe(step(off, 500.0));
    CHECK(off.budget() == 1000);
}

TEST_CASE("step time: settles within a tenth of the target, wherever it starts") {
    for (const double ms_per_token : {0.05, 0.1, 0.3}) {
        for (const double fixed_ms : {0.0, 5.0, 15.0}) {
            StepTimeController controller = at_40_ms();
            std::vector<double> times;
            for (int i = 0; i < 300; ++i) {
                // Some noise that repeats.
                const double noise = 1.0 + 0.03 * std::sin(static_cast<double>(i) * 1.7);
                times.push_back((fixed_ms + ms_per_token * controller.budget()) * noise);
                controller.observe(step(controller, times.back()));
            }
            double mean = 0.0;
            for (size_t i = 200; i < 300; ++i) mean += times[i] / 100.0;
            CAPTURE(ms_per_token);
            CAPTURE(fixed_ms);
            CHECK(mean == doctest::Approx(40.0).epsilon(0.1));
        }
    }
}

}  // namespace
}  // namespace nvllm
