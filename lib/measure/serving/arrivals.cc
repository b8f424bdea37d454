// Gaps from the gamma distribution.
#include "lib/measure/serving/arrivals.h"

#include <cmath>

#include "kernels/error.h"
#include "lib/base/random_source.h"

namespace nvllm {
namespace {

constexpr uint32_t kGapStream = 2;

double rate_at(const ArrivalOptions& options, double progress) {
    if (!options.ramp_up_strategy) return options.request_rate;
    const double start = options.ramp_up_start_rps, end = options.ramp_up_end_rps;
    if (*options.ramp_up_strategy == "linear") return start + (end - start) * progress;
    return start * std::pow(end / start, progress);
}

}  // namespace

void set_arrivals(std::span<WorkItem> items, const ArrivalOptions& options) {
    NVLLM_CHECK(options.burstiness > 0.0, "a shape above 0");
    RandomSource random(options.seed, kGapStream);
    const auto count = static_cast<double>(items.size());
    double time_s = 0.0;
    for (size_t i = 0; i < items.size(); ++i) {
        const double rate = rate_at(options, static_cast<double>(i) / count);
        NVLLM_CHECK(rate > 0.0, "a rate above 0");
        if (std::isfinite(rate)) {
            time_s += random.gamma(options.burstiness, 1.0 / (rate * options.burstiness));
        }
        items[i].send_at_s = time_s;
    }
    if (options.ramp_up_strategy || !std::isfinite(options.request_rate) || time_s <= 0.0) return;
    const double factor = count / options.request_rate / time_s;
    for (WorkItem& item : items) item.send_at_s *= factor;
}

}  // namespace nvllm
