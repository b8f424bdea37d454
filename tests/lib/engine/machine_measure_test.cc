// Ranks that measure, and the link that their sums make.
#include "lib/engine/machine_measure.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

using namespace nvllm;

TEST_CASE("a link is found again in the times that it makes") {
    for (const int32_t ranks : {2, 4, 8}) {
        std::vector<SumSample> samples;
        for (uint64_t bytes = 4096; bytes <= 4 << 20; bytes *= 4) {
            const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes);
            samples.push_back({bytes, 2.0 * 5e-6 + sent / 3e9});
        }
        const LinkSpec link = fitted_link(samples, ranks);
        CHECK(link.bytes_per_s == doctest::Approx(3e9));
        CHECK(link.latency_s == doctest::Approx(5e-6));
    }
    // Times that no link makes give one all the same.
    const std::vector<SumSample> shrinking = {{4096, 2e-5}, {16384, 1e-5}};
    CHECK(fitted_link(shrinking, 2).bytes_per_s > 0.0);
    CHECK(fitted_link(shrinking, 2).latency_s > 0.0);
}

TEST_CASE("ranks measure together, as threads") {
    EngineConfig config;
    config.compute.parallel.tensor = 2;
    config.compute.placement.num_threads = 2;
    const MachineMeasurement measured = measure_machine(config, DType::bf16, 8 << 20);
    REQUIRE(measured.ranks.size() == 2);
    CHECK(measured.ranks[0].sums.size() == measured.ranks[1].sums.size());
    CHECK(measured.machine.read_bytes_per_s > 0.0);
    CHECK(measured.machine.operations_per_s > 0.0);
    CHECK(measured.machine.memory_bytes > 0);
    CHECK(measured.machine.within.bytes_per_s > 0.0);
    config.compute.parallel.tensor = 1;
    test::error_of(ErrorKind::usage, [&] { measure_machine(config, DType::bf16, 8 << 20); });
}
