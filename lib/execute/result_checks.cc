// One check for each thing that the engine relies on.
#include "lib/execute/result_checks.h"

#include <algorithm>
#include <string>

#include "kernels/error.h"

namespace nvllm {
namespace {

void require(bool condition, const std::string& what) {
    if (!condition) throw Error(ErrorKind::bad_data, "the worker's answer " + what);
}

void check_tokens(std::span<const TokenLogprob> tokens, int32_t vocab_size) {
    for (const TokenLogprob& token : tokens) {
        require(token.token_id >= 0 && token.token_id < vocab_size, "names no token");
    }
}

void check_logprobs(std::span<const SampledLogprobs> logprobs, int32_t vocab_size) {
    for (const SampledLogprobs& one : logprobs) {
        check_tokens({&one.chosen, 1}, vocab_size);
        check_tokens(one.top, vocab_size);
    }
}

void check_step(const PlanEntry& entry, const SequenceStep& step, int32_t vocab_size) {
    require(step.sequence == entry.sequence, "is of another sequence");
    const size_t num_tokens = entry.output == OutputKind::sample && !step.fault ? 1 : 0;
    require(step.token_ids.size() == num_tokens, "has another number of tokens");
    for (const int32_t id : step.token_ids) {
        require(id >= 0 && id < vocab_size, "names no token");
    }
    require(step.logprobs.empty() || step.logprobs.size() == num_tokens,
            "has another number of logprobs");
    const bool searches = entry.output == OutputKind::candidates && !step.fault;
    require(!searches || step.candidates.size() ==
                             static_cast<size_t>(std::min(entry.num_candidates, vocab_size)),
            "has another number of candidates");
    const bool pools = entry.output == OutputKind::pooled && !step.fault;
    require(step.embedding.empty() != pools, "has a vector too many or too few");
    check_logprobs(step.logprobs, vocab_size);
    check_logprobs(step.prompt_logprobs, vocab_size);
    check_tokens(step.candidates, vocab_size);
}

}  // namespace

void check_step_result(const BatchPlan& plan, const StepResult& result, int32_t vocab_size) {
    require(result.plan_number == plan.number, "is to another plan");
    require(result.sequences.size() == plan.entries.size(), "has another number of sequences");
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        check_step(plan.entries[i], result.sequences[i], vocab_size);
    }
}

}  // namespace nvllm
