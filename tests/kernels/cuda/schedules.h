// Runs a test of a kernel in the orders of threads, and with the timings of copies, that find
// different mistakes.
#pragma once

#include <doctest/doctest.h>

#ifdef NVLLM_ON_DEVICE

// A GPU has its own order and its own timings.
template <typename Body>
void under_all_schedules(Body body) {
    body();
}

#else

#include <vector>

#include "kernels/cuda_emulation/settings.h"

// Orders and timings enough for every kernel: in step, backwards, one warp ahead of the others;
// copies late and early; and, where kernels have access hooks, threads that give way in the middle
// of things.
inline std::vector<nvllm::gpu::emulation::Settings> all_schedules() {
    using namespace nvllm::gpu::emulation;
    std::vector<Settings> all{{.order = Order::in_order},
                              {.order = Order::reverse, .copies = CopyTiming::early},
                              {.order = Order::random, .seed = 5},
                              {.order = Order::greedy, .seed = 1},
                              {.order = Order::greedy, .seed = 2, .copies = CopyTiming::early},
                              {.order = Order::greedy, .seed = 3}};
    if (has_access_hooks()) {
        all = {
            {.order = Order::greedy, .seed = 1},
            {.order = Order::random, .seed = 2, .copies = CopyTiming::early, .preempt_every = 20}};
    }
    return all;
}

template <typename Body>
void under_all_schedules(Body body) {
    for (const auto& schedule : all_schedules()) {
        CAPTURE(static_cast<int>(schedule.order));
        CAPTURE(schedule.seed);
        CAPTURE(static_cast<int>(schedule.copies));
        CAPTURE(schedule.preempt_every);
        const nvllm::gpu::emulation::ScopedSettings scoped(schedule);
        body();
    }
}

#endif
