// A list of items cut into ranges for threads that each begin with a share of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {

// Each thread's share of the items, as ThreadPool::parallel_for shares out ranges: ranges of at
// most `most` items, towards the end of the share shorter ones: none is longer than half of what is
// left of it, unless it is the `least`. So ranges are long while they can be, and no thread waits
// long for one that began its last range late. With `least` equal to `most` all are alike. (Guided
// self-scheduling: Polychronopoulos and Kuck 1987.)
class GuidedRanges {
  public:
    struct Range {
        int64_t begin;
        int64_t end;
        int64_t size() const { return end - begin; }
    };

    // Every range but the last that is not empty is a multiple of `least` items. REQUIRES: so is
    // `most`.
    GuidedRanges(int64_t items, int64_t least, int64_t most, int num_threads)
        : items_(items), share_(divided_up(divided_up(items, num_threads), least) * least) {
        int64_t left = share_;
        int64_t range = 0;
        const auto size_for = [&] { return std::clamp(left / 2 / least * least, least, most); };
        for (int64_t size = size_for(); size > least; size = size_for()) {
            const int64_t count = size < most ? 1 : left / most - 1;
            runs_[static_cast<size_t>(num_runs_++)] = {range, share_ - left, size};
            range += count;
            left -= count * size;
        }
        runs_[static_cast<size_t>(num_runs_++)] = {range, share_ - left, least};
        ranges_of_share_ = range + divided_up(left, least);
        count_ = ranges_of_share_ * num_threads;
    }

    // As many of each share; the last may be empty.
    int64_t count() const { return count_; }
    // Empty from count() on.
    Range at(int64_t range) const {
        if (range >= count_) return {items_, items_};
        const int64_t share = range / ranges_of_share_ * share_;
        range %= ranges_of_share_;
        int i = num_runs_ - 1;
        while (runs_[static_cast<size_t>(i)].first > range) --i;
        const Run& run = runs_[static_cast<size_t>(i)];
        const int64_t begin = run.begin + (range - run.first) * run.size;
        return {std::min(share + begin, items_),
                std::min(share + std::min(begin + run.size, share_), items_)};
    }

    // What a thread takes next; nothing where its share ends.
    Range after(int64_t range) const {
        return (range + 1) % ranges_of_share_ == 0 ? at(count_) : at(range + 1);
    }

  private:
    // Ranges of one size, from the `first` of a share on, until those of the next size begin.
    struct Run {
        int64_t first;
        int64_t begin;
        int64_t size;
    };
    static constexpr int kMaxRuns = 64;  // each but the first and the last halves what is left

    int64_t items_;
    int64_t share_;  // items of each thread, but for the last ones
    int64_t ranges_of_share_ = 0;
    int64_t count_ = 0;
    int num_runs_ = 0;
    std::array<Run, kMaxRuns> runs_;
};

}  // namespace nvllm::cpu
