// How many tokens a step may have so that it takes about as long as it should.
//
// A step far over the target cuts the budget by a fifth, one far under it adds a tenth; in between
// the budget drifts towards the target by at most a fiftieth a step. Little free memory and a
// fragmented cache cut it too. After each cut or raise the next step is not counted: it may have
// been planned before.
#pragma once

#include <cstdint>

namespace nvllm {

// What became of one step; handed to Scheduler::observe().
struct StepObservation {
    double step_ms = 0.0;
    int32_t num_tokens = 0;          // computed
    int32_t num_prefill_tokens = 0;  // of those, see BatchPlan::num_prefill_tokens
    int32_t num_draft_tokens = 0;    // of num_tokens
    double free_memory_share = 1.0;  // of the cache: free or only cached
    double fragmentation = 0.0;      // as DetailedCacheStats has it
    uint64_t swapped_bytes = 0;
    double swap_ms = 0.0;
    int32_t num_proposed = 0;  // drafts of the next step that the worker proposed
    double draft_ms = 0.0;     // of step_ms, by those
};

struct StepTimeConfig {
    double target_ms = 0.0;  // 0: the budget stays what it is
    int32_t most_tokens = 0;
    int32_t min_tokens = 1;
    double low_memory_share = 0.15;
    double high_fragmentation = 0.4;
};

// A step this much over its target is slow, this much under it fast: at the target of 40 ms, over
// 50 and under 30.
inline constexpr double kSlowStep = 1.25;
inline constexpr double kFastStep = 0.75;

class StepTimeController {
  public:
    explicit StepTimeController(const StepTimeConfig& config);

    // Tokens the next step may have.
    int32_t budget() const { return static_cast<int32_t>(budget_); }
    void observe(const StepObservation& step);

    int64_t num_cuts() const { return num_cuts_; }
    int64_t num_raises() const { return num_raises_; }

  private:
    void change(double factor);
    bool is_scarce(bool low, bool& was_low, int& steps_low);

    StepTimeConfig config_;
    double budget_;
    int num_unchecked_ = 0;  // later steps that are not counted
    bool was_low_on_memory_ = false;
    bool was_fragmented_ = false;
    int steps_low_on_memory_ = 0;
    int steps_fragmented_ = 0;
    int64_t num_cuts_ = 0;
    int64_t num_raises_ = 0;
};

}  // namespace nvllm
