// Ticks, and each sequence's position in its prompt.
#include "lib/execute/mock_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lib/cli/options.h"

namespace nvllm {
namespace {

constexpr double kUsualIntervalMs = 10.0;
constexpr double kLongestIntervalMs = 60'000.0;
constexpr const char* kVariable = "NVLLM_METRONOME_MS";

}  // namespace

std::chrono::microseconds mock_interval() {
    const auto text = process_environment()(kVariable);
    const auto interval_ms = text ? parse_number(*text) : kUsualIntervalMs;
    if (!interval_ms || *interval_ms < 0.0 || *interval_ms > kLongestIntervalMs) {
        throw Error(ErrorKind::bad_config,
                    fmt::format("{}: '{}' is not a number of milliseconds from 0 to {}", kVariable,
                                *text, kLongestIntervalMs));
    }
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::duration<double, std::milli>(*interval_ms));
}

MockExecutor::Sequence MockExecutor::sequence_of(const AddedSequence& added) {
    Sequence sequence;
    sequence.num_prompt_tokens = added.num_prompt_tokens;
    sequence.index = added.index;
    sequence.wants_logprobs = added.sampling.logprobs.has_value();
    sequence.wants_logits =
        added.sampling.prompt_logprobs.has_value() || added.sampling.use_beam_search;
    for (int32_t i = 0; i < added.num_prompt_tokens; ++i) {
        const int32_t token = added.token_ids[static_cast<size_t>(i)];
        const auto& ends = added.eos_token_ids;
        if (std::ranges::find(ends, token) == ends.end()) sequence.cycle.push_back(token);
    }
    if (sequence.cycle.empty()) sequence.cycle.push_back(added.token_ids.front());
    return sequence;
}

void MockExecutor::wait_for_tick() {
    tick_ = std::max(tick_ + interval_, Clock::now());
    std::this_thread::sleep_until(tick_);
}

StepResult MockExecutor::execute(const BatchPlan& plan) {
    for (const SequenceId sequence : plan.removed) sequences_.erase(sequence);
    for (const AddedSequence& added : plan.added) {
        sequences_.insert_or_assign(added.sequence, sequence_of(added));
    }
    StepResult result;
    result.plan_number = plan.number;
    for (const PlanEntry& entry : plan.entries) result.sequences.push_back(step_of(entry));
    if (!plan.entries.empty()) wait_for_tick();
    return result;
}

// A token's number is its offset from the end of the prompt, so a preempted sequence continues with
// the same tokens.
SequenceStep MockExecutor::step_of(const PlanEntry& entry) const {
    const Sequence& sequence = sequences_.at(entry.sequence);
    SequenceStep step;
    step.sequence = entry.sequence;
    if (sequence.wants_logits) {
        step.fault = Fault{ErrorKind::bad_data, "a metronome has no logits to answer this from"};
    } else if (entry.output == OutputKind::sample) {
        const int32_t number = entry.first + entry.count - sequence.num_prompt_tokens;
        const auto index = static_cast<size_t>(number + sequence.index) % sequence.cycle.size();
        step.token_ids.push_back(sequence.cycle[index]);
        if (sequence.wants_logprobs)
            step.logprobs.push_back({{sequence.cycle[index], 0.0f}, 1, {}});
    }
    return step;
}

}  // namespace nvllm
