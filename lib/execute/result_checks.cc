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

// The accepted drafts, and one token after them.
void check_accepted(std::span<const int32_t> drafts, const std::vector<int32_t>& token_ids) {
    require(!token_ids.empty() && token_ids.size() <= drafts.size() + 1,
            "has another number of tokens");
    require(std::equal(token_ids.begin(), token_ids.end() - 1, drafts.begin()),
            "accepts a draft that it did not get");
}

// `mask`: of each row that samples; empty: any token may be chosen.
void check_allowed(std::span<const uint32_t> mask, std::span<const int32_t> token_ids,
                   int32_t vocab_size) {
    if (mask.empty()) return;
    const size_t words = (static_cast<size_t>(vocab_size) + 31) / 32;
    for (size_t row = 0; row < token_ids.size(); ++row) {
        const auto id = static_cast<size_t>(token_ids[row]);
        const size_t word = row * words + id / 32;
        require(word < mask.size() && (mask[word] >> (id % 32) & 1) != 0,
                "chooses a token that its mask forbids");
    }
}

void check_step(const PlanEntry& entry, const EntryExtras& extras, const SequenceStep& step,
                int32_t vocab_size) {
    require(step.sequence == entry.sequence, "is of another sequence");
    const bool samples = entry.output == OutputKind::sample && !step.fault;
    if (samples) check_accepted(extras.drafts.token_ids, step.token_ids);
    const size_t num_tokens = step.token_ids.size();
    require(samples || num_tokens == 0, "has another number of tokens");
    for (const int32_t id : step.token_ids) {
        require(id >= 0 && id < vocab_size, "names no token");
    }
    check_allowed(extras.token_mask, step.token_ids, vocab_size);
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

int32_t num_wanted(const BatchPlan& plan, uint32_t entry) {
    const auto found = std::ranges::lower_bound(plan.extras, entry, {}, &EntryExtras::entry);
    const bool is_there = found != plan.extras.end() && found->entry == entry;
    return is_there ? found->num_next_drafts : 0;
}

void check_next_drafts(const DraftTokens& drafts, int32_t num_wanted, int32_t vocab_size) {
    require(drafts.size() <= num_wanted, "proposes more drafts than were wanted");
    for (const int32_t id : drafts.token_ids) {
        require(id >= 0 && id < vocab_size, "names no token");
    }
    require(drafts.parents.empty() || drafts.parents.size() == drafts.token_ids.size(),
            "has another number of parents");
    for (int32_t row = 1; row <= std::ssize(drafts.parents); ++row) {
        const int32_t parent = drafts.parents[static_cast<size_t>(row - 1)];
        require(parent >= 0 && parent < row, "has a draft without a parent");
    }
}

void check_extras(const BatchPlan& plan, const StepResult& result, int32_t vocab_size) {
    size_t next = 0;
    for (const StepExtras& extras : result.extras) {
        require(extras.entry >= next && extras.entry < result.sequences.size(),
                "has extras of no sequence");
        next = size_t{extras.entry} + 1;
        const size_t num_tokens = result.sequences[extras.entry].token_ids.size();
        require(extras.accepted_rows.size() == std::max<size_t>(num_tokens, 1) - 1,
                "has another number of accepted rows");
        for (size_t i = 0; i < extras.accepted_rows.size(); ++i) {
            require(extras.accepted_rows[i] == static_cast<int32_t>(i) + 1,
                    "accepts rows that are no chain");
        }
        check_next_drafts(extras.next_drafts, num_wanted(plan, extras.entry), vocab_size);
    }
}

// Each entry's extras, which are in the order of the entries.
const EntryExtras& take_extras(std::span<const EntryExtras>& extras, size_t entry) {
    static const EntryExtras kNone;
    if (extras.empty() || extras.front().entry != entry) return kNone;
    const EntryExtras& found = extras.front();
    extras = extras.subspan(1);
    return found;
}

}  // namespace

void check_step_result(const BatchPlan& plan, const StepResult& result, int32_t vocab_size) {
    require(result.plan_number == plan.number, "is to another plan");
    require(result.sequences.size() == plan.entries.size(), "has another number of sequences");
    std::span<const EntryExtras> extras = plan.extras;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        check_step(plan.entries[i], take_extras(extras, i), result.sequences[i], vocab_size);
    }
    check_extras(plan, result, vocab_size);
}

}  // namespace nvllm
