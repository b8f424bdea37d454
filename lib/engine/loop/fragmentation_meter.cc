// The time between two measurements follows from how long one takes.
#include "lib/engine/loop/fragmentation_meter.h"

#include <algorithm>

#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

constexpr double kMinIntervalS = 1.0;
constexpr double kMaxShare = 0.001;  // of the engine thread's time

}  // namespace

double FragmentationMeter::measure() {
    const double begin_s = clock_.now_s();
    if (begin_s < next_s_) return fragmentation_;
    fragmentation_ =
        fault_point("engine.fragmentation").not_a_number ? 1.0 : cache_.fragmentation();
    const double end_s = clock_.now_s();
    next_s_ = end_s + std::max(kMinIntervalS, (end_s - begin_s) / kMaxShare);
    return fragmentation_;
}

}  // namespace nvllm
