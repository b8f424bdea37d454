// Tests that the probes run and give figures; how large they are is for benchmarks to say.
#include "kernels/cpu/probe.h"

#include "testing.h"

TEST_CASE("probes give positive figures on every instruction set") {
    nvllm::ThreadPool threads(2);
    testing::for_each_isa([&](nvllm::cpu::Isa isa) {
        INFO(nvllm::cpu::isa_name(isa));
        CHECK(nvllm::probe_read_bandwidth(threads, size_t{4} << 20, 2) > 0);
        CHECK(nvllm::probe_float32_peak(threads) > 0);
        CHECK(nvllm::probe_bfloat16_peak(threads) > 0);
        CHECK(nvllm::probe_int8_peak(threads) > 0);
    });
}

TEST_CASE("a cache line takes some time between two cores, and none where there is one") {
    const double handover_ns = nvllm::probe_handover_ns();
    if (nvllm::default_num_threads() < 2) {
        CHECK(handover_ns == 0);
    } else {
        CHECK(handover_ns > 0);
        CHECK(handover_ns < 1e9);
    }
}
