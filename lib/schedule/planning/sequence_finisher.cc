// The end of sequences and of their requests.
#include "lib/schedule/planning/sequence_finisher.h"

#include <utility>

namespace nvllm {

void SequenceFinisher::finish(ScheduledSequence& scheduled, FinishReason reason) {
    running_.mark_left();
    update_.remove(scheduled);
    if (scheduled.sequence.state != SequenceState::running) waiting_.remove(scheduled);
    remote_.end_lease(scheduled);
    scheduled.sequence.finish(reason, context_.now_s);
    if (reason == FinishReason::error) {
        context_.cache.discard(scheduled.cache);
    } else {
        context_.cache.free(scheduled.cache);
    }
    ScheduledRequest& request = *scheduled.request;
    --request.num_active;
    if (request.num_active == 0) {
        end_request(request);
    } else if (request.prompt_sequence == scheduled.sequence.id) {
        requests_.choose_prompt_sequence(request);
    }
    finished_.push_back(scheduled.sequence.id);
    requests_.retire(scheduled);
}

void SequenceFinisher::end_request(ScheduledRequest& request) {
    context_.adapters.release(request.request.adapter.id);
    if (request.beams != nullptr && request.beams->has_slots) {
        running_.release_slots(request.request.sampling.num_sequences());
    }
    backpressure_.forget(request);
    requests_.remove_request(request);
}

void SequenceFinisher::cancel(ScheduledSequence& scheduled) {
    if (scheduled.sequence.state == SequenceState::finished || scheduled.cancelled) return;
    if (scheduled.num_plans == 0) {
        finish(scheduled, FinishReason::cancelled);
    } else {
        scheduled.cancelled = true;
        cancelled_.push_back(&scheduled);
    }
}

void SequenceFinisher::cancel_all(const ScheduledRequest& request) {
    for (SequenceId id = request.first; id < request.end(); ++id) {
        if (ScheduledSequence* sequence = requests_.find(id)) cancel(*sequence);
    }
}

void SequenceFinisher::finish_cancelled() {
    for (ScheduledSequence* sequence : cancelled_) {
        if (sequence->sequence.state == SequenceState::finished) continue;
        finish(*sequence, FinishReason::cancelled);
    }
    cancelled_.clear();
}

std::vector<SequenceId> SequenceFinisher::take_finished() { return std::exchange(finished_, {}); }

}  // namespace nvllm
