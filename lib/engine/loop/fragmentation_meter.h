// The cache's fragmentation, measured now and then: a measurement reads every block.
#pragma once

#include "lib/cache/cache_manager.h"
#include "lib/engine/loop/engine_clock.h"

namespace nvllm {

class FragmentationMeter {
  public:
    FragmentationMeter(const CacheManager& cache, const EngineClock& clock)
        : cache_(cache), clock_(clock) {}

    // The latest value; measures at most once a second, and less often if that takes long.
    double measure();

  private:
    const CacheManager& cache_;
    const EngineClock& clock_;
    double fragmentation_ = 0.0;
    double next_s_ = 0.0;
};

}  // namespace nvllm
