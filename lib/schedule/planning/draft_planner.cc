// Draft tokens in plans, and what becomes of them.
#include "lib/schedule/planning/draft_planner.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/planning/answer_masks.h"
#include "lib/schedule/planning/checkpoints.h"
#include "lib/schedule/speculation/proposers.h"

namespace nvllm {
namespace {

std::span<const int32_t> accepted_rows(const StepResult& result, uint32_t entry) {
    const auto extras = std::ranges::lower_bound(result.extras, entry, {}, &StepExtras::entry);
    if (extras == result.extras.end() || extras->entry != entry) return {};
    return extras->accepted_rows;
}

// That get drafts in a step.
size_t most_sequences(const SchedulingContext& context) {
    return static_cast<size_t>(context.config.speculation.max_sequences);
}

void cut(DraftTokens& drafts, int32_t count) {
    if (drafts.size() <= count) return;
    drafts.token_ids.resize(static_cast<size_t>(count));
    if (!drafts.parents.empty()) drafts.parents.resize(static_cast<size_t>(count));
}

}  // namespace

DraftPlanner::DraftPlanner(SchedulingContext& context, const RunningSet& running,
                           DraftProposer* proposer)
    : context_(context), running_(running), proposer_(proposer) {
    const SpeculationConfig& config = context.config.speculation;
    if (!config.enabled()) return;
    config.check();
    by_worker_ = config.by_worker && proposer == nullptr;
    if (config.adaptive) lengths_.emplace(config.free_rows, by_worker_, config.is_tree());
    if (proposer != nullptr || by_worker_) return;
    own_proposer_ = find_draft_method(config.method).make(config);
    proposer_ = own_proposer_.get();
}

bool DraftPlanner::may_force(const PlanBuilder& builder) const {
    return context_.config.speculation.proposes_forced &&
           std::ranges::any_of(builder.entries, [](const PlannedEntry& entry) {
               return entry.sequence->constraint != nullptr;
           });
}

void DraftPlanner::add_to_entries(PlanBuilder& builder) {
    list_candidates(builder);
    chosen_.clear();
    if (may_force(builder)) choose_forced(builder);
    if (lengths_) choose_lengths(builder);
    for (size_t i = 0; i < entries_.size() && proposes(); ++i) {
        if (candidates_[i].length > 0) chosen_.push_back({entries_[i], candidates_[i].length, {}});
    }
    std::ranges::sort(chosen_, {}, &Chosen::entry);
    chosen_.resize(std::min(chosen_.size(), most_sequences(context_)));
    for (Chosen& chosen : chosen_) add_to_entry(builder, std::move(chosen));
    if (by_worker_) ask_worker(builder);
}

void DraftPlanner::choose_forced(const PlanBuilder& builder) {
    size_t num_left = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
        const ScheduledSequence& scheduled = *builder.entries[entries_[i]].sequence;
        DraftTokens forced;
        if (scheduled.constraint != nullptr && !scheduled.constraint->has_ended()) {
            forced = forced_.propose(*scheduled.constraint, candidates_[i].most);
        }
        if (forced.empty()) {
            entries_[num_left] = entries_[i];
            candidates_[num_left++] = candidates_[i];
        } else {
            chosen_.push_back({entries_[i], forced.size(), std::move(forced)});
        }
    }
    entries_.resize(num_left);
    candidates_.resize(num_left);
}

void DraftPlanner::list_candidates(const PlanBuilder& builder) {
    entries_.clear();
    candidates_.clear();
    for (size_t i = 0; i < builder.entries.size(); ++i) {
        const PlannedEntry& entry = builder.entries[i];
        if (entry.count != 1 || entry.output != OutputKind::sample) continue;
        // The drafts follow a known token, not a placeholder.
        const Sequence& sequence = entry.sequence->sequence;
        if (sequence.num_placeholders > 0) continue;
        if (!entry.sequence->request->request.speculative) continue;
        const int32_t most = max_drafts(builder, sequence);
        if (most <= 0) continue;
        entries_.push_back(i);
        candidates_.push_back({&entry.sequence->draft_history, most, most});
    }
}

// Beside prompts, each token takes its time. What the worker proposed was chosen before.
void DraftPlanner::choose_lengths(const PlanBuilder& builder) {
    if (builder.plan.num_prefill_tokens() > 0) {
        candidates_.clear();
        entries_.clear();
        return;
    }
    if (by_worker_) return;
    const int32_t most = context_.config.speculation.num_speculative_tokens;
    for (DraftCandidate& candidate : candidates_) candidate.most = std::min(candidate.most, most);
    lengths_->choose(candidates_, builder.plan.num_tokens());
}

void DraftPlanner::add_to_entry(PlanBuilder& builder, Chosen&& chosen) {
    ScheduledSequence& scheduled = *builder.entries[chosen.entry].sequence;
    // Those before it have taken some of the step's tokens.
    const int32_t most = std::min(chosen.most, builder.budget.left());
    if (most <= 0) return;
    const bool is_forced = !chosen.forced.empty();
    DraftTokens drafts = is_forced ? std::move(chosen.forced) : take_drafts(scheduled);
    cut(drafts, most);
    if (scheduled.constraint != nullptr) drop_refused(*scheduled.constraint, drafts);
    if (drafts.empty() || !allocate(builder, chosen.entry, drafts.size())) return;
    builder.add_drafts(chosen.entry, std::move(drafts), is_forced);
}

// A step with prompts verifies none: where a prompt goes on in the next step, none are wanted.
void DraftPlanner::ask_worker(PlanBuilder& builder) {
    list_next_candidates(builder);
    if (lengths_) {
        const bool goes_on = std::ranges::any_of(builder.entries, [](const PlannedEntry& entry) {
            return entry.output == OutputKind::none;
        });
        if (goes_on) return;
        // Each sequence that has its next token now computes it then.
        const auto num_tokens =
            std::ranges::count(builder.entries, OutputKind::sample, &PlannedEntry::output);
        lengths_->choose(candidates_, static_cast<int32_t>(num_tokens));
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
        if (candidates_[i].length > 0) builder.ask_for_drafts(entries_[i], candidates_[i].length);
    }
}

// After the token that this plan chooses and before the sequence's last one.
void DraftPlanner::list_next_candidates(const PlanBuilder& builder) {
    entries_.clear();
    candidates_.clear();
    for (size_t i = 0; i < builder.entries.size(); ++i) {
        const PlannedEntry& entry = builder.entries[i];
        const ScheduledSequence& scheduled = *entry.sequence;
        if (entry.output != OutputKind::sample || !scheduled.request->request.speculative) continue;
        const int32_t most =
            std::min({context_.config.speculation.most_drafts(), context_.config.largest_step() - 1,
                      scheduled.sequence.longest_length - scheduled.sequence.num_tokens() - 2});
        if (most <= 0) continue;
        if (entries_.size() == most_sequences(context_)) break;
        entries_.push_back(i);
        candidates_.push_back({&scheduled.draft_history, most, most});
    }
}

DraftTokens DraftPlanner::take_drafts(ScheduledSequence& scheduled) {
    PendingDrafts pending = std::exchange(scheduled.drafts, {});
    const bool fresh = pending.num_known == scheduled.sequence.num_tokens();
    if (fresh && !pending.tokens.empty()) return std::move(pending.tokens);
    return proposer_ == nullptr
               ? DraftTokens{}
               : proposer_->propose(scheduled.sequence, scheduled.request->request.cache_salt);
}

// One token follows the last draft, and the last token of a sequence is never computed.
int32_t DraftPlanner::max_drafts(const PlanBuilder& builder, const Sequence& sequence) const {
    const int32_t length = sequence.num_tokens();
    return std::min({builder.budget.left(), context_.config.largest_step() - 1,
                     sequence.longest_length - length - 1,
                     count_drafts_to_checkpoint(context_.cache, length)});
}

// One block stays free for each running sequence.
bool DraftPlanner::allocate(PlanBuilder& builder, size_t index, int32_t num_drafts) {
    CacheManager& cache = context_.cache;
    PlannedEntry& entry = builder.entries[index];
    const int32_t end = entry.sequence->sequence.num_planned() + num_drafts;
    const int32_t more =
        cache.shape().num_blocks_for(end) - cache.shape().num_blocks_for(end - num_drafts);
    if (more > 0 && cache.num_available() < more + running_.size()) return false;
    return cache.allocate(entry.sequence->cache, end, builder.plan.entries[index].new_blocks);
}

void DraftPlanner::roll_back(PlanInFlight& plan, const StepResult& result,
                             std::span<const StopDecision> decisions) {
    for (const PlannedDrafts& drafts : plan.drafts) {
        PlannedEntry& entry = plan.entries[drafts.entry];
        count(*entry.sequence, drafts, result.sequences[drafts.entry],
              accepted_rows(result, drafts.entry));
        Sequence& sequence = entry.sequence->sequence;
        if (sequence.state == SequenceState::finished) continue;
        const int32_t num_accepted = std::max(1, decisions[drafts.entry].num_accepted) - 1;
        NVLLM_CHECK(num_accepted <= drafts.count, "more drafts are accepted than were planned");
        const int32_t num_rejected = drafts.count - num_accepted;
        sequence.roll_back(num_rejected, drafts.count);
        entry.count -= num_rejected;
    }
}

// Nothing comes of a sequence that has failed, or finished under an earlier plan.
void DraftPlanner::count(ScheduledSequence& scheduled, const PlannedDrafts& drafts,
                         const SequenceStep& step, std::span<const int32_t> accepted_rows) {
    if (step.token_ids.empty()) return;
    const auto num_accepted = static_cast<int32_t>(step.token_ids.size()) - 1;
    if (drafts.is_forced) {
        forced_.count(drafts.count, num_accepted);
        return;
    }
    SpeculationStats& stats = context_.counters.speculation;
    ++stats.drafts;
    stats.draft_tokens += drafts.count;
    stats.accepted_tokens += num_accepted;
    for (int32_t i = 0; i < std::min(num_accepted, kMostDrafts); ++i) {
        ++stats.accepted_per_position[static_cast<size_t>(i)];
    }
    if (!lengths_) return;
    if (context_.config.speculation.is_tree()) {
        lengths_->count_tree(scheduled.draft_history, drafts.count, accepted_rows);
    } else {
        lengths_->count(scheduled.draft_history, drafts.count, num_accepted);
    }
}

void DraftPlanner::learn(const ScheduledSequence& scheduled) {
    if (proposer_ == nullptr) return;
    proposer_->learn(scheduled.sequence, scheduled.request->request.cache_salt);
}

void DraftPlanner::observe(const StepObservation& step) {
    if (!lengths_ || step.num_prefill_tokens > 0 || step.num_tokens == 0) return;
    lengths_->observe(step.num_tokens, step.num_draft_tokens, step.step_ms,
                      {step.num_proposed, step.draft_ms});
}

void DraftPlanner::take_next_drafts(const PlanInFlight& plan, const StepResult& result) {
    for (const StepExtras& extras : result.extras) {
        if (extras.next_drafts.empty()) continue;
        NVLLM_CHECK(extras.entry < plan.entries.size(), "drafts are for an entry of the plan");
        ScheduledSequence& scheduled = *plan.entries[extras.entry].sequence;
        if (scheduled.sequence.state == SequenceState::finished) continue;
        scheduled.drafts = {extras.next_drafts, scheduled.sequence.num_tokens()};
        has_drafts_ = true;
    }
}

}  // namespace nvllm
