// The choice between swapping and recomputing.
#include "lib/schedule/planning/preemption_costs.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

TEST_CASE("costs follow measurements") {
    PreemptionCosts costs;
    // At 2 GB/s, out and in again, and 1 ms a token.
    CHECK(costs.swap_is_faster(1'000'000, 2));
    CHECK_FALSE(costs.swap_is_faster(1'000'000, 1));
    StepObservation slow_copies;
    slow_copies.swapped_bytes = 1000;
    slow_copies.swap_ms = 1.0;
    for (int i = 0; i < 60; ++i) costs.observe(slow_copies);
    CHECK_FALSE(costs.swap_is_faster(1'000'000, 100));
    StepObservation slow_prefill;
    slow_prefill.num_tokens = slow_prefill.num_prefill_tokens = 10;
    slow_prefill.step_ms = 1e6;
    for (int i = 0; i < 60; ++i) costs.observe(slow_prefill);
    CHECK(costs.swap_is_faster(1'000'000, 100));
}

TEST_CASE("a step of mostly decode measures no prefill") {
    PreemptionCosts costs;
    StepObservation decode;
    decode.num_tokens = 10;
    decode.num_prefill_tokens = 5;
    decode.step_ms = 1e9;
    costs.observe(decode);
    CHECK_FALSE(costs.swap_is_faster(1'000'000, 1));
}

}  // namespace
}  // namespace nvllm
