// A list of items cut into ranges for threads that take one after another.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cpu/rows.h"

namespace nvllm::cpu {

// Ranges of at most `most` items, towards the end shorter ones: none is longer than half of what
// would be each thread's share of the items left, unless it is the `least`. So ranges are long
// while they can be, and no thread waits long for one that began its last range late. With `least`
// equal to `most` all are alike. (Guided self-scheduling, in rounds: Polychronopoulos and Kuck
// 1987.)
class TaperedRanges {
  public:
    struct Range {
        int64_t begin;
        int64_t end;
        int64_t size() const { return end - begin; }
    };

    // Every range but the last is a multiple of `least` items. REQUIRES: so is `most`.
    TaperedRanges(int64_t items, int64_t least, int64_t most, int num_threads) : items_(items) {
        const int64_t longest_round = most * num_threads;
        int64_t left = items;
        const auto size_for = [&] {
            return std::clamp(left / (2 * num_threads) / least * least, least, most);
        };
        int64_t range = 0;
        for (int64_t size = size_for(); size > least; size = size_for()) {
            const int64_t rounds = size < most ? 1 : left / longest_round - 1;
            rounds_[static_cast<size_t>(num_rounds_++)] = {range, items - left, size};
            range += rounds * num_threads;
            left -= rounds * num_threads * size;
        }
        rounds_[static_cast<size_t>(num_rounds_++)] = {range, items - left, least};
        count_ = range + divided_up(left, least);
    }

    int64_t count() const { return count_; }
    // Empty from count() on.
    Range at(int64_t range) const {
        int i = num_rounds_ - 1;
        while (rounds_[static_cast<size_t>(i)].first > range) --i;
        const Round& round = rounds_[static_cast<size_t>(i)];
        const int64_t begin = std::min(round.begin + (range - round.first) * round.size, items_);
        return {begin, std::min(begin + round.size, items_)};
    }

  private:
    // Ranges of one size, from the `first` on, until those of the next size begin.
    struct Round {
        int64_t first;
        int64_t begin;
        int64_t size;
    };
    static constexpr int kMaxRounds = 64;  // each but the first and the last halves what is left

    int64_t items_;
    int64_t count_ = 0;
    int num_rounds_ = 0;
    std::array<Round, kMaxRounds> rounds_;
};

}  // namespace nvllm::cpu
