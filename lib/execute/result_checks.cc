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

// The accepted drafts, of which each follows the one before, and one token after them.
void check_accepted(const DraftTokens& drafts, std::span<const int32_t> rows,
                    std::span<const int32_t> token_ids) {
    require(token_ids.size() == rows.size() + 1, "has another number of tokens");
    int32_t last = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        require(rows[i] > last && rows[i] <= drafts.size() && drafts.parent(rows[i]) == last,
                "accepts rows that do not follow each other");
        require(drafts.token_ids[static_cast<size_t>(rows[i] - 1)] == token_ids[i],
                "accepts a draft that it did not get");
        last = rows[i];
    }
}

// `mask`: of each row that samples; empty: any token may be chosen. `rows`: those that are
// accepted.
void check_allowed(std::span<const uint32_t> mask, std::span<const int32_t> rows,
                   std::span<const int32_t> token_ids, int32_t vocab_size) {
    if (mask.empty()) return;
    const size_t words = (static_cast<size_t>(vocab_size) + 31) / 32;
    for (size_t i = 0; i < token_ids.size(); ++i) {
        const auto id = static_cast<size_t>(token_ids[i]);
        const size_t row = i == 0 ? 0 : static_cast<size_t>(rows[i - 1]);
        const size_t word = row * words + id / 32;
        require(word < mask.size() && (mask[word] >> (id % 32) & 1) != 0,
                "chooses a token that its mask forbids");
    }
}

void check_step(const PlanEntry& entry, const EntryExtras& extras,
                std::span<const int32_t> accepted_rows, const SequenceStep& step,
                int32_t vocab_size) {
    require(step.sequence == entry.sequence, "is of another sequence");
    const bool samples = entry.output == OutputKind::sample && !step.fault;
    if (samples) check_accepted(extras.drafts, accepted_rows, step.token_ids);
    const size_t num_tokens = step.token_ids.size();
    require(samples || num_tokens == 0, "has another number of tokens");
    for (const int32_t id : step.token_ids) {
        require(id >= 0 && id < vocab_size, "names no token");
    }
    check_allowed(extras.token_mask, accepted_rows, step.token_ids, vocab_size);
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
        const bool has_tokens = !result.sequences[extras.entry].token_ids.empty();
        require(has_tokens || extras.accepted_rows.empty(), "accepts rows and has no tokens");
        check_next_drafts(extras.next_drafts, num_wanted(plan, extras.entry), vocab_size);
    }
}

// Each entry's extras, which are in the order of the entries.
template <typename Extras>
const Extras& take_extras(std::span<const Extras>& extras, size_t entry) {
    static const Extras kNone;
    if (extras.empty() || extras.front().entry != entry) return kNone;
    const Extras& found = extras.front();
    extras = extras.subspan(1);
    return found;
}

}  // namespace

void check_step_result(const BatchPlan& plan, const StepResult& result, int32_t vocab_size) {
    require(result.plan_number == plan.number, "is to another plan");
    require(result.sequences.size() == plan.entries.size(), "has another number of sequences");
    check_extras(plan, result, vocab_size);
    std::span<const EntryExtras> planned = plan.extras;
    std::span<const StepExtras> extras = result.extras;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        check_step(plan.entries[i], take_extras(planned, i), take_extras(extras, i).accepted_rows,
                   result.sequences[i], vocab_size);
    }
}

}  // namespace nvllm
