// The few states between two workers.
#include "lib/engine/loop/recovery.h"

#include <algorithm>

namespace nvllm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5000};

// 0 for the first time, then from kFirstPause on twice as long each time.
milliseconds pause_before(int num_before) {
    if (num_before == 0) return milliseconds(0);
    return std::min(kFirstPause * (1 << std::min(num_before - 1, 10)), kLongestPause);
}

}  // namespace

void Recovery::replace(Clock::time_point now) {
    const milliseconds pause = pause_before(num_useless_++);
    state_ = State::pausing;
    pause_ends_ = now + pause;
    if (pause.count() == 0) start(now);
}

void Recovery::start(Clock::time_point now) {
    state_ = State::starting;
    try {
        executor_.start();
    } catch (const std::exception& error) {
        note_failed_start(error.what(), now);
    }
}

bool Recovery::attend(Clock::time_point now) {
    if (state_ == State::pausing && now >= pause_ends_) start(now);
    if (state_ != State::starting) return false;
    try {
        if (!executor_.ready(false)) return false;
    } catch (const std::exception& error) {
        note_failed_start(error.what(), now);
        return false;
    }
    state_ = State::ready;
    num_failed_in_a_row_ = 0;
    return true;
}

// In a row: starts that each take long must not be tried for ever.
void Recovery::note_failed_start(const std::string& cause, Clock::time_point now) {
    start_fault_ = cause;
    ++num_failed_starts_;
    ++num_failed_in_a_row_;
    failed_starts_.push_back(now);
    std::erase_if(failed_starts_,
                  [&](Clock::time_point when) { return now - when > kFailedStartsWithin; });
    const bool enough = num_failed_in_a_row_ >= kMaxFailedStarts ||
                        static_cast<int>(failed_starts_.size()) >= kMaxFailedStarts;
    state_ = enough ? State::failed : State::pausing;
    pause_ends_ = now + pause_before(num_failed_in_a_row_);
}

std::optional<milliseconds> Recovery::wake_after(Clock::time_point now) const {
    // A worker that has no descriptor to watch is ready as soon as it is started.
    if (state_ == State::starting && !executor_.readable_descriptor()) return milliseconds(0);
    if (state_ != State::pausing) return std::nullopt;
    const auto left = std::chrono::ceil<milliseconds>(pause_ends_ - now);
    return std::max(left, milliseconds(0));
}

}  // namespace nvllm
