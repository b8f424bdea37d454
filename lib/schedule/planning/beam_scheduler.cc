// Groups of beams: forks, ends and copies on write.
#include "lib/schedule/planning/beam_scheduler.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "lib/request/end_tokens.h"
#include "lib/schedule/planning/checkpoints.h"

namespace nvllm {

void BeamScheduler::begin(ScheduledRequest& request) {
    ScheduledSequence* first = requests_.find(request.first);
    std::vector<int32_t> tokens =
        end_token_ids(request.request.sampling, request.request.eos_token_ids);
    SamplingParams sampling = request.request.sampling;
    sampling.max_tokens = first->sequence.longest_length - first->sequence.num_prompt_tokens;
    const int32_t num_candidates = BeamSearch::num_candidates(sampling, tokens.size());
    request.beams = std::make_unique<BeamGroup>(
        BeamGroup{BeamSearch(sampling, std::move(tokens)), {first}, num_candidates});
}

void BeamScheduler::take_candidates(ScheduledSequence& scheduled, const SequenceStep& step) {
    scheduled.candidates = step.candidates;
    const std::vector<ScheduledSequence*>& beams = scheduled.request->beams->beams;
    const bool all = std::ranges::all_of(
        beams, [](const ScheduledSequence* beam) { return !beam->candidates.empty(); });
    if (all) advance(*scheduled.request);
}

void BeamScheduler::advance(ScheduledRequest& request) {
    BeamGroup& group = *request.beams;
    std::vector<std::vector<TokenLogprob>> candidates;
    std::vector<std::span<const int32_t>> generated;
    for (ScheduledSequence* beam : group.beams) {
        candidates.push_back(std::exchange(beam->candidates, {}));
        generated.push_back(beam->sequence.generated());
    }
    const std::vector<BeamChoice> choices = group.search.advance(candidates, generated);
    if (choices.empty()) {
        end(request);
        return;
    }
    std::vector<ScheduledSequence*> next(choices.size(), nullptr);
    std::vector<bool> continues(group.beams.size(), false);
    for (size_t i = 0; i < choices.size(); ++i) {  // the first child keeps its parent's sequence
        if (continues[choices[i].parent]) continue;
        continues[choices[i].parent] = true;
        next[i] = group.beams[choices[i].parent];
    }
    std::vector<ScheduledSequence*> unused = unused_sequences(request, continues);
    for (size_t i = 0; i < choices.size(); ++i) {
        if (next[i] != nullptr) continue;
        next[i] = unused.back();
        unused.pop_back();
        fork(*group.beams[choices[i].parent], *next[i]);
    }
    for (ScheduledSequence* sequence : unused) release(*sequence);
    for (size_t i = 0; i < choices.size(); ++i) {
        next[i]->sequence.token_ids.push_back(choices[i].token_id);
        next[i]->unsent_tokens.push_back(choices[i].token_id);
        if (!next[i]->sequence.first_token_s) next[i]->sequence.first_token_s = context_.now_s;
    }
    group.beams = std::move(next);
}

// Sequences of the group that no beam uses, the first one last.
std::vector<ScheduledSequence*> BeamScheduler::unused_sequences(
    const ScheduledRequest& request, const std::vector<bool>& continues) const {
    const std::vector<ScheduledSequence*>& beams = request.beams->beams;
    std::vector<ScheduledSequence*> unused;
    for (SequenceId id = request.end(); id > request.first; --id) {
        ScheduledSequence* scheduled = requests_.find(id - 1);
        const auto beam = std::ranges::find(beams, scheduled);
        const bool used =
            beam != beams.end() && continues[static_cast<size_t>(beam - beams.begin())];
        if (!used) unused.push_back(scheduled);
    }
    return unused;
}

// The sequence leaves slot, queue and blocks; no beam uses its content any more.
void BeamScheduler::release(ScheduledSequence& scheduled) {
    running_.mark_left();
    update_.remove(scheduled);
    if (scheduled.sequence.state != SequenceState::running) waiting_.remove(scheduled);
    if (scheduled.sequence.state != SequenceState::waiting) {
        scheduled.sequence.withdraw(context_.now_s);
    }
    running_.remove_left();
    context_.cache.free(scheduled.cache);
    scheduled.removal = PendingRemoval::none;
    scheduled.unsent_tokens.clear();
}

void BeamScheduler::fork(const ScheduledSequence& parent, ScheduledSequence& child) {
    release(child);
    const bool shares = parent.sequence.state == SequenceState::running;
    child.sequence.fork_from(parent.sequence, shares, context_.now_s);
    child.unsent_tokens = parent.unsent_tokens;
    if (shares) {
        context_.cache.fork(child.cache, parent.cache, parent.sequence.num_computed);
        running_.add(child);
    } else {
        waiting_.add(child, context_.now_s);
    }
}

void BeamScheduler::end(ScheduledRequest& request) {
    const std::vector<BeamHypothesis>& best = request.beams->search.hypotheses();
    results_.push_back({request.request.id, best});
    // The table forgets the request with its last sequence.
    const auto kept = requests_.find_request(request.request.id);
    for (SequenceId id = request.first; id < request.end(); ++id) {
        ScheduledSequence* scheduled = requests_.find(id);
        if (scheduled == nullptr || scheduled->sequence.state == SequenceState::finished) continue;
        finisher_.finish(*scheduled,
                         best.front().ended ? FinishReason::stop : FinishReason::length);
    }
}

std::vector<BeamResult> BeamScheduler::take_results() { return std::exchange(results_, {}); }

bool BeamScheduler::copy_on_write(PlanBuilder& builder, ScheduledSequence& scheduled) {
    std::vector<TableChange> changes;
    const int32_t next = scheduled.sequence.num_planned();
    const bool ends_prompt = next == prompt_checkpoint(context_.cache, scheduled.sequence);
    while (!context_.cache.copy_on_write(scheduled.cache, next, update_.copies, changes,
                                         ends_prompt)) {
        if (!preemptor_.reclaim_for(builder, scheduled)) return false;
    }
    for (const TableChange& change : changes) update_.change_table(scheduled, change);
    return true;
}

}  // namespace nvllm
