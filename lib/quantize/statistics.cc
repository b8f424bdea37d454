// Sums over what linears are given.
#include "lib/quantize/statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/linalg.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kChannelGrain = 64;

}  // namespace

bool SiteStatistics::is_finite() const {
    return std::all_of(sum_abs.begin(), sum_abs.end(),
                       [](double sum) { return std::isfinite(sum); });
}

void StatisticsCollector::watch(size_t site, int64_t in, bool wants_gram) {
    SiteStatistics& statistics = sites_[site];
    statistics.sum_abs.resize(static_cast<size_t>(in));
    statistics.max_abs.resize(static_cast<size_t>(in));
    if (wants_gram && statistics.gram.empty()) {
        statistics.gram = Tensor::allocate(DType::f32, {in, in});
    }
}

void StatisticsCollector::watch_ranges(size_t site, bool by_sample) {
    SiteStatistics& statistics = sites_.at(site);
    if (statistics.ranges.channels() != 0 && !by_sample) return;
    statistics.ranges = SampleRanges(static_cast<int64_t>(statistics.max_abs.size()), by_sample);
}

void StatisticsCollector::next_sample() {
    for (auto& [site, statistics] : sites_) statistics.ranges.next_sample();
}

void StatisticsCollector::see(size_t site, const Context& context, const ConstTensorView& x) {
    const auto found = sites_.find(site);
    if (found == sites_.end()) return;
    SiteStatistics& statistics = found->second;
    statistics.num_tokens += x.dim(0);
    const std::span<ValueRange> ranges = statistics.ranges.channels() != 0 && x.dim(0) > 0
                                             ? statistics.ranges.current()
                                             : std::span<ValueRange>();
    context.threads->parallel_for(x.dim(1), kChannelGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = 0; row < x.dim(0); ++row) {
            const float* const values = x.as<float>() + row * x.stride(0);
            for (int64_t channel = begin; channel < end; ++channel) {
                const float magnitude = std::abs(values[channel]);
                const auto i = static_cast<size_t>(channel);
                statistics.sum_abs[i] += magnitude;
                statistics.max_abs[i] = std::max(statistics.max_abs[i], magnitude);
                if (!ranges.empty()) ranges[i].add(values[channel]);
            }
        }
    });
    if (statistics.gram.empty()) return;
    ops::add_gram(context, x, compute_type_, statistics.gram.mutable_view());
}

void StatisticsCollector::finish(const Context& context) {
    for (auto& [site, statistics] : sites_) {
        if (!statistics.gram.empty()) {
            ops::mirror_lower(context, statistics.gram.mutable_view());
        }
    }
}

const SiteStatistics* StatisticsCollector::of(size_t site) const {
    const auto found = sites_.find(site);
    return found == sites_.end() ? nullptr : &found->second;
}

}  // namespace nvllm::quantize
