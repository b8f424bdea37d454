// The mask as an option: what it is read from, shown as, and refused for.
#include "lib/engine/options/placement.h"

#include <doctest/doctest.h>

#include "lib/engine/options/engine_options.h"

namespace nvllm {
namespace {

CpuResources four_cpus() {
    CpuResources resources;
    resources.topology.cpus = {0, 1, 2, 3};
    resources.topology.cores = {{0, 2}, {1, 3}};
    resources.topology.nodes = {{0, {0, 1, 2, 3}}};
    resources.allowed = {0, 1, 3};
    return resources;
}

TEST_CASE("placement: threads follow the options") {
    EngineConfig config;
    CHECK(engine_placement(config, four_cpus()).num_threads() == 2);
    config.compute.cpu_mask = CpuMask{{1, 3}};
    const CpuPlacement bound = engine_placement(config, four_cpus());
    CHECK(bound.threads == std::vector<CpuList>{{1}, {3}});
    config.compute.placement.num_threads = 1;
    CHECK(engine_placement(config, four_cpus()).num_threads() == 1);
}

TEST_CASE("placement: a mask with processors that may not be used names those that may") {
    EngineConfig config;
    config.compute.cpu_mask = CpuMask{{1, 2, 7}};
    try {
        engine_placement(config, four_cpus());
        FAIL("was taken");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        const std::string message = error.what();
        CHECK(message.find("2,7 are") != std::string::npos);
        CHECK(message.find("may use 0,1,3") != std::string::npos);
    }
}

TEST_CASE("placement: a mask is shown as what is read again") {
    const OptionField field;
    for (const char* text : {"f", "0-3", "1-1", "0,2", "0x21"}) {
        const auto mask = OptionType<CpuMask>::parse(field, text);
        REQUIRE(mask);
        CHECK(OptionType<CpuMask>::parse(field, OptionType<CpuMask>::format(field, *mask)) == mask);
    }
    CHECK_FALSE(OptionType<CpuMask>::parse(field, "none"));
    CHECK_FALSE(OptionType<CpuMask>::parse(field, "0"));
}

}  // namespace
}  // namespace nvllm
