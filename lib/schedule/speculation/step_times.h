// How long steps take that compute so many tokens, as far as they were measured.
//
// Only steps without prompts count: each of their tokens gets logits. Sizes that differ by less
// than about a thirtieth are measured together, at their mean. Between measured sizes a time is
// interpolated; beyond them it is that of the nearest, where `free_rows` tokens take as long as one
// and more take longer in proportion. A size that was not measured for long is forgotten: texts
// have grown, or the machine has changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nvllm {

class StepTimes {
  public:
    explicit StepTimes(int32_t free_rows) : free_rows_(free_rows) {}

    // A step of so many tokens, at least one, took so long.
    void observe(int32_t num_tokens, double step_ms);
    // Milliseconds; nothing before the first step.
    std::optional<double> estimate(int32_t num_tokens) const;
    // Steps since this size was measured; nothing if it never was.
    std::optional<int64_t> age(int32_t num_tokens) const;
    // Steps in which it was measured.
    int64_t count(int32_t num_tokens) const;

  private:
    struct Measured {
        double num_tokens = 0.0;
        double ms = 0.0;
        int64_t count = 0;
        int64_t last_step = 0;
    };
    double shape(double num_tokens) const;
    void forget_old();

    int32_t free_rows_;
    int64_t num_steps_ = 0;
    std::map<int32_t, Measured> sizes_;  // by the smallest size that counts as the same
};

}  // namespace nvllm
