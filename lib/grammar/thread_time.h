// The time that the calling thread has computed: limits of it do not depend on what else runs.
#pragma once

#include <time.h>

#include <chrono>

namespace nvllm {

using ThreadTime = std::chrono::nanoseconds;

inline ThreadTime thread_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

inline ThreadTime thread_time_in(double seconds) {
    return thread_time() +
           std::chrono::duration_cast<ThreadTime>(std::chrono::duration<double>(seconds));
}

}  // namespace nvllm
