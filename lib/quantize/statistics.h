// What methods want to know of the inputs of a site: second moments and magnitudes of channels.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lib/quantize/hooked_model.h"
#include "lib/quantize/sample_ranges.h"

namespace nvllm::quantize {

struct SiteStatistics {
    int64_t num_tokens = 0;
    Tensor gram;                  // float32 [in, in]: sum of x x^T; empty when it is not wanted
    std::vector<double> sum_abs;  // of each channel
    std::vector<float> max_abs;   // alike
    SampleRanges ranges;          // where some scale is to be made of them

    // Whether all inputs were finite numbers.
    bool is_finite() const;
    float mean_abs(size_t channel) const {
        return num_tokens == 0
                   ? 0.0f
                   : static_cast<float>(sum_abs[channel] / static_cast<double>(num_tokens));
    }
};

// Sums over tokens in the order they come, so that a sum depends on nothing else.
class StatisticsCollector final : public LinearObserver {
  public:
    // Second moments are those of what products in `compute_type` are given.
    explicit StatisticsCollector(DType compute_type) : compute_type_(compute_type) {}

    // From here on, what this site is given counts.
    void watch(size_t site, int64_t in, bool wants_gram);
    // Its ranges too: of each sample where that is wanted once, otherwise of all.
    void watch_ranges(size_t site, bool by_sample);
    // What is seen from here on is of another sample.
    void next_sample();
    void see(size_t site, const Context& context, const ConstTensorView& x) override;
    // Both triangles of all Gram matrices are there afterwards.
    void finish(const Context& context);
    // Null: it was not observed.
    const SiteStatistics* of(size_t site) const;
    void clear() { sites_.clear(); }

  private:
    DType compute_type_;
    std::map<size_t, SiteStatistics> sites_;
};

}  // namespace nvllm::quantize
