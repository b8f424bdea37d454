// The ranges of channels in each sample, and the one range that calibration makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/model/weights/quantized_matrix.h"

namespace nvllm::quantize {

class SampleRanges {
  public:
    SampleRanges() = default;
    // Without `by_sample` all samples count as one, which takes the memory of one.
    SampleRanges(int64_t channels, bool by_sample)
        : channels_(static_cast<size_t>(channels)), by_sample_(by_sample) {}

    bool empty() const { return samples_.empty(); }
    size_t channels() const { return channels_; }
    // What is seen from here on is of another sample.
    void next_sample() { is_open_ = is_open_ && !by_sample_; }
    // The ranges of the sample that is being seen, for the caller to widen; [channels].
    std::span<ValueRange> current();

    // The range of all channels, each divided by its divisor (none: 1). `share`: empty for the
    // range of all samples; otherwise a mean that begins with the first sample's range and moves
    // by this share to each later one's, as compressed-tensors' observer "minmax" has it.
    // REQUIRES: not empty; by_sample, for a mean.
    ValueRange range(std::optional<double> share, std::span<const float> divisors) const;

    static uint64_t planned_bytes(int64_t channels, size_t samples) {
        return static_cast<uint64_t>(channels) * samples * sizeof(ValueRange);
    }

  private:
    size_t channels_ = 0;
    bool by_sample_ = false;
    bool is_open_ = false;
    std::vector<std::vector<ValueRange>> samples_;
};

}  // namespace nvllm::quantize
