// Times of steps by their size.
#include "lib/schedule/speculation/step_times.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

void observe(StepTimes& times, int32_t num_tokens, double step_ms, int count = 20) {
    for (int i = 0; i < count; ++i) times.observe(num_tokens, step_ms);
}

TEST_CASE("step times: nothing is known before the first step") {
    StepTimes times(8);
    CHECK(!times.estimate(1));
    CHECK(!times.age(1));
}

TEST_CASE("step times: beyond what was measured, free rows cost nothing and others their share") {
    StepTimes times(8);
    observe(times, 1, 10.0);
    CHECK(*times.estimate(1) == doctest::Approx(10.0));
    CHECK(*times.estimate(8) == doctest::Approx(10.0));
    CHECK(*times.estimate(16) == doctest::Approx(20.0));
    observe(times, 16, 12.0);
    CHECK(*times.estimate(32) == doctest::Approx(24.0));
    // Between two sizes in proportion.
    CHECK(*times.estimate(6) == doctest::Approx(10.0 + 2.0 * 5.0 / 15.0));
}

TEST_CASE("step times: an interrupted step counts little, a lasting change counts fully") {
    StepTimes times(8);
    observe(times, 4, 10.0);
    times.observe(4, 1000.0);
    CHECK(*times.estimate(4) < 10.6);
    observe(times, 4, 20.0, 200);
    CHECK(*times.estimate(4) == doctest::Approx(20.0).epsilon(0.01));
}

TEST_CASE("step times: sizes age and are forgotten") {
    StepTimes times(8);
    times.observe(1, 10.0);
    observe(times, 2, 11.0, 100);
    CHECK(*times.age(1) == 100);
    CHECK(*times.age(2) == 0);
    observe(times, 2, 11.0, 3000);
    CHECK(!times.age(1));
    CHECK(*times.estimate(1) == doctest::Approx(11.0));
}

TEST_CASE("step times: large sizes count together by thirtieths") {
    StepTimes times(8);
    observe(times, 128, 10.0);
    CHECK(*times.age(131) == 0);
    CHECK(!times.age(132));
    CHECK(!times.age(127));
    // At their mean.
    observe(times, 130, 12.0, 1000);
    CHECK(*times.estimate(130) == doctest::Approx(12.0).epsilon(0.01));
}

}  // namespace
}  // namespace nvllm
