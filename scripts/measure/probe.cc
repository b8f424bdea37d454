// Prints what this machine can do at best, as one JSON line: memory read bandwidth and arithmetic
// peaks of all usable cores, and how long a cache line takes from one core to another and back.
#include <cstdio>

#include "kernels/cpu/probe.h"
#include "kernels/host/cpu_placement.h"
#include "kernels/host/thread_pool.h"

int main() {
    nvllm::ThreadPool threads(nvllm::default_num_threads());
    std::printf(
        "{\"threads\": %d, \"read_gb_s\": %.1f, \"float32_gflop_s\": %.0f, \"bfloat16_gflop_s\": "
        "%.0f, \"int8_gop_s\": %.0f, \"handover_ns\": %.0f}\n",
        threads.num_threads(), nvllm::probe_read_bandwidth(threads, size_t{1} << 30, 5),
        nvllm::probe_float32_peak(threads), nvllm::probe_bfloat16_peak(threads),
        nvllm::probe_int8_peak(threads), nvllm::probe_handover_ns());
}
