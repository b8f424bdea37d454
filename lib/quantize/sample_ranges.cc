// Ranges by sample are kept until the divisors of channels are known, which come after all samples.
#include "lib/quantize/sample_ranges.h"

#include "kernels/error.h"

namespace nvllm::quantize {

std::span<ValueRange> SampleRanges::current() {
    if (!is_open_) {
        samples_.emplace_back(channels_);
        is_open_ = true;
    }
    return samples_.back();
}

ValueRange SampleRanges::range(std::optional<double> share, std::span<const float> divisors) const {
    NVLLM_CHECK(!empty() && (by_sample_ || !share), "ranges of samples that were seen");
    NVLLM_CHECK(divisors.empty() || divisors.size() == channels_, "a divisor of each channel");
    ValueRange result;
    for (const std::vector<ValueRange>& sample : samples_) {
        ValueRange range;
        for (size_t channel = 0; channel < channels_; ++channel) {
            const float divisor = divisors.empty() ? 1.0f : divisors[channel];
            range.add(sample[channel].minimum / divisor);
            range.add(sample[channel].maximum / divisor);
        }
        if (&sample == &samples_.front()) {
            result = range;
        } else if (!share) {
            result.add(range.minimum);
            result.add(range.maximum);
        } else {
            const auto part = static_cast<float>(*share);
            result.minimum += part * (range.minimum - result.minimum);
            result.maximum += part * (range.maximum - result.maximum);
        }
    }
    return result;
}

}  // namespace nvllm::quantize
