// Beam search within the scheduler: a group of sequences that advances together.
//
// Each beam is a sequence like any other, planned and preempted by itself; it computes its tokens
// and then holds the likeliest next ones until all beams of its group do. The group then decides:
// beams go on, fork into the places of those that ended, or the search is over. Forked beams share
// blocks; the one that is written to next is copied first.
#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {
namespace {

std::vector<int32_t> end_tokens(const Request& request) {
    std::vector<int32_t> tokens = request.sampling.stop_token_ids;
    if (!request.sampling.ignore_eos) {
        tokens.insert(tokens.end(), request.eos_token_ids.begin(), request.eos_token_ids.end());
    }
    std::ranges::sort(tokens);
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
}

}  // namespace

void Scheduler::begin_beams(ScheduledRequest& request) {
    ScheduledSequence* first = lookup(request.first);
    std::vector<int32_t> tokens = end_tokens(request.request);
    SamplingParams sampling = request.request.sampling;
    sampling.max_tokens = first->sequence.longest_length - first->sequence.num_prompt_tokens;
    const int32_t num_candidates = BeamSearch::num_candidates(sampling, tokens.size());
    request.beams = std::make_unique<BeamGroup>(
        BeamGroup{BeamSearch(sampling, std::move(tokens)), {first}, num_candidates});
    searching_.push_back(&request);
}

// What a beam computed is known; the group goes on when all of its beams are as far.
void Scheduler::take_candidates(ScheduledSequence& scheduled, const SequenceStep& step) {
    scheduled.candidates = step.candidates;
    const std::vector<ScheduledSequence*>& beams = scheduled.request->beams->beams;
    const bool all = std::ranges::all_of(
        beams, [](const ScheduledSequence* beam) { return !beam->candidates.empty(); });
    if (all) advance_beams(*scheduled.request);
}

void Scheduler::advance_beams(ScheduledRequest& request) {
    BeamGroup& group = *request.beams;
    std::vector<std::vector<TokenLogprob>> candidates;
    std::vector<std::span<const int32_t>> generated;
    for (ScheduledSequence* beam : group.beams) {
        candidates.push_back(std::exchange(beam->candidates, {}));
        generated.push_back(beam->sequence.generated());
    }
    const std::vector<BeamChoice> choices = group.search.advance(candidates, generated);
    if (choices.empty()) {
        end_beams(request);
        return;
    }
    std::vector<ScheduledSequence*> next(choices.size(), nullptr);
    std::vector<bool> goes_on(group.beams.size(), false);
    for (size_t i = 0; i < choices.size(); ++i) {  // the first of a beam's children stays in place
        if (goes_on[choices[i].parent]) continue;
        goes_on[choices[i].parent] = true;
        next[i] = group.beams[choices[i].parent];
    }
    std::vector<ScheduledSequence*> free_places = free_beams(request, goes_on);
    for (size_t i = 0; i < choices.size(); ++i) {
        if (next[i] != nullptr) continue;
        next[i] = free_places.back();
        free_places.pop_back();
        fork(*group.beams[choices[i].parent], *next[i]);
    }
    for (ScheduledSequence* unused : free_places) rest(*unused);
    for (size_t i = 0; i < choices.size(); ++i) {
        next[i]->sequence.token_ids.push_back(choices[i].token_id);
        next[i]->untold_tokens.push_back(choices[i].token_id);
        if (!next[i]->sequence.first_token_s) next[i]->sequence.first_token_s = now_s_;
    }
    group.beams = std::move(next);
}

// Sequences of the group that no beam needs, the first one last.
std::vector<ScheduledSequence*> Scheduler::free_beams(const ScheduledRequest& request,
                                                      const std::vector<bool>& goes_on) const {
    const std::vector<ScheduledSequence*>& beams = request.beams->beams;
    std::vector<ScheduledSequence*> places;
    for (int32_t index = request.request.sampling.num_sequences() - 1; index >= 0; --index) {
        ScheduledSequence* scheduled = lookup(request.first + static_cast<SequenceId>(index));
        const auto beam = std::ranges::find(beams, scheduled);
        const bool used = beam != beams.end() && goes_on[static_cast<size_t>(beam - beams.begin())];
        if (!used) places.push_back(scheduled);
    }
    return places;
}

// Leaves slot, queue and blocks; what it was is nobody's any more.
void Scheduler::rest(ScheduledSequence& scheduled) {
    somebody_left_ = true;
    if (std::exchange(scheduled.told, false)) removed_.push_back(scheduled.sequence.id);
    if (scheduled.sequence.state != SequenceState::running) waiting_.remove(scheduled);
    if (scheduled.sequence.state != SequenceState::waiting) scheduled.sequence.withdraw(now_s_);
    leave_running();
    cache_.free(scheduled.cache);
    scheduled.disconnect_reason = DisconnectReason::none;
    scheduled.untold_tokens.clear();
}

void Scheduler::fork(const ScheduledSequence& parent, ScheduledSequence& child) {
    rest(child);
    const bool shares = parent.sequence.state == SequenceState::running;
    child.sequence.fork_from(parent.sequence, shares, now_s_);
    child.untold_tokens = parent.untold_tokens;
    if (shares) {
        cache_.fork(child.cache, parent.cache, parent.sequence.num_computed);
        running_.push_back(&child);
    } else {
        waiting_.add(child, now_s_);
    }
}

void Scheduler::end_beams(ScheduledRequest& request) {
    const std::vector<BeamHypothesis>& best = request.beams->search.hypotheses();
    beam_results_.push_back({request.request.id, best});
    // The request may go with its last sequence.
    const auto kept = requests_.at(request.request.id);
    const SequenceId end =
        request.first + static_cast<SequenceId>(request.request.sampling.num_sequences());
    for (SequenceId id = request.first; id < end; ++id) {
        ScheduledSequence* scheduled = lookup(id);
        if (scheduled == nullptr || scheduled->sequence.state == SequenceState::finished) continue;
        finish(*scheduled, best.front().ended ? FinishReason::stop : FinishReason::length);
    }
}

std::vector<BeamResult> Scheduler::take_beam_results() { return std::exchange(beam_results_, {}); }

// Blocks that other beams share are replaced before this one writes to them; false when there are
// none left and nobody yields.
bool Scheduler::make_private(PlanBuilder& builder, ScheduledSequence& scheduled) {
    std::vector<TableChange> changes;
    while (!cache_.copy_on_write(scheduled.cache, scheduled.sequence.num_planned(), copies_,
                                 changes)) {
        if (!take_victim(builder, scheduled)) return false;
    }
    if (scheduled.told) {
        table_changes_.insert(table_changes_.end(), changes.begin(), changes.end());
    }
    return true;
}

}  // namespace nvllm
