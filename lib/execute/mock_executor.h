// A mock executor for tests and benchmarks of the engine without a model. At each tick it returns,
// for every sequence that samples, the next token of that sequence's prompt.
//
// A caller knows the tokens beforehand: token i of sequence j of a request is the prompt's token
// (i + j) modulo its length, end tokens left out. There are no logits: beam search and prompt
// logprobs are refused; a chosen token has the logprob 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/execute/step_executor.h"

namespace nvllm {

class MockExecutor final : public StepExecutor {
  public:
    explicit MockExecutor(std::chrono::microseconds interval) : interval_(interval) {}

    void start() override { sequences_.clear(); }
    std::optional<WorkerReady> ready(bool) override { return WorkerReady{}; }
    std::optional<int> readable_descriptor() const override { return std::nullopt; }
    std::optional<std::string> check_alive() override { return std::nullopt; }
    // Waits for the next tick; missed ticks are skipped.
    StepResult execute(const BatchPlan& plan) override;
    void forget() override { sequences_.clear(); }
    std::optional<int> process_id() const override { return std::nullopt; }
    bool kill(const std::string&) override { return false; }

  private:
    using Clock = std::chrono::steady_clock;

    struct Sequence {
        std::vector<int32_t> cycle;  // tokens to repeat
        int32_t num_prompt_tokens = 0;
        int32_t index = 0;
        bool wants_logprobs = false;
        bool wants_logits = false;  // refused
    };
    static Sequence sequence_of(const AddedSequence& added);
    SequenceStep step_of(const PlanEntry& entry) const;
    void wait_for_tick();

    const std::chrono::microseconds interval_;
    Clock::time_point tick_{};  // the last tick
    std::unordered_map<SequenceId, Sequence> sequences_;
};

// Of NVLLM_METRONOME_MS, which may be a fraction or 0; 10 ms when it is not set. Throws bad_config.
std::chrono::microseconds mock_interval();

}  // namespace nvllm
