// How often fragmentation is measured.
#include "lib/engine/loop/fragmentation_meter.h"

#include <doctest/doctest.h>

using namespace nvllm;

TEST_CASE("an unused cache is not fragmented, and a second value comes without a measurement") {
    CacheConfig config;
    config.groups = {{16, 0, 0}};
    const CacheManager cache(config);
    const EngineClock clock;
    FragmentationMeter meter(cache, clock);
    CHECK(meter.measure() == 0.0);
    CHECK(meter.measure() == 0.0);
}
