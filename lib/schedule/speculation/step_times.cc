// Moving times by size.
#include "lib/schedule/speculation/step_times.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace nvllm {
namespace {

// The weight of a step in its size's time, once there were some. What disturbs a step makes it
// longer: short ones count more, and a size with few steps rather seems too long.
constexpr double kShortWeight = 0.2;
constexpr double kLongWeight = 0.04;
// A step that was interrupted counts as this many times as long as expected, at most.
constexpr double kLongest = 1.5;
constexpr int64_t kForgottenAfter = 2048;
constexpr int64_t kLooksEvery = 256;

// The smallest size that counts as this one: all up to 64, then 32 to each doubling.
int32_t group_of(int32_t num_tokens) {
    if (num_tokens <= 64) return num_tokens;
    const auto size = static_cast<uint32_t>(num_tokens);
    const int shift = std::bit_width(size) - 6;
    return static_cast<int32_t>((size >> shift) << shift);
}

}  // namespace

double StepTimes::shape(double num_tokens) const {
    return std::max(1.0, num_tokens / static_cast<double>(free_rows_));
}

void StepTimes::observe(int32_t num_tokens, double step_ms) {
    const double expected = estimate(num_tokens).value_or(step_ms);
    Measured& size = sizes_[group_of(num_tokens)];
    ++num_steps_;
    ++size.count;
    size.last_step = num_steps_;
    const double usual = step_ms < size.ms ? kShortWeight : kLongWeight;
    const double weight = std::max(usual, 1.0 / static_cast<double>(size.count));
    const double counted = std::min(step_ms, kLongest * expected);
    size.ms += weight * (counted - size.ms);
    size.num_tokens += weight * (num_tokens - size.num_tokens);
    if (num_steps_ % kLooksEvery == 0) forget_old();
}

void StepTimes::forget_old() {
    std::erase_if(sizes_, [this](const auto& size) {
        return num_steps_ - size.second.last_step > kForgottenAfter;
    });
}

std::optional<double> StepTimes::estimate(int32_t num_tokens) const {
    if (sizes_.empty()) return std::nullopt;
    // Groups and their means are in the same order.
    auto above = sizes_.lower_bound(group_of(num_tokens));
    if (above != sizes_.end() && above->second.num_tokens < num_tokens) ++above;
    if (above == sizes_.end() || above == sizes_.begin()) {
        const Measured& nearest = above == sizes_.end() ? std::prev(above)->second : above->second;
        return nearest.ms * shape(num_tokens) / shape(nearest.num_tokens);
    }
    const Measured& high = above->second;
    const Measured& low = std::prev(above)->second;
    const double share = (num_tokens - low.num_tokens) / (high.num_tokens - low.num_tokens);
    return low.ms + share * (high.ms - low.ms);
}

std::optional<int64_t> StepTimes::age(int32_t num_tokens) const {
    const auto size = sizes_.find(group_of(num_tokens));
    if (size == sizes_.end()) return std::nullopt;
    return num_steps_ - size->second.last_step;
}

int64_t StepTimes::count(int32_t num_tokens) const {
    const auto size = sizes_.find(group_of(num_tokens));
    return size == sizes_.end() ? 0 : size->second.count;
}

}  // namespace nvllm
