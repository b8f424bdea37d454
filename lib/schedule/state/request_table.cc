// Adds, finds and forgets requests and sequences.
#include "lib/schedule/state/request_table.h"

#include <utility>

namespace nvllm {

std::shared_ptr<ScheduledRequest> RequestTable::add_request(const Request& request) {
    auto added = std::make_shared<ScheduledRequest>();
    if (!requests_.try_emplace(request.id, added).second) return nullptr;
    added->request = request;
    added->request.prompt_token_ids = {};
    added->first = added->prompt_sequence = next_id_;
    added->num_active = request.sampling.num_sequences();
    return added;
}

ScheduledSequence& RequestTable::add_sequence(std::unique_ptr<ScheduledSequence> sequence) {
    const SequenceId id = sequence->sequence.id;
    return *sequences_.emplace(id, std::move(sequence)).first->second;
}

ScheduledSequence* RequestTable::find(SequenceId sequence) const {
    const auto found = sequences_.find(sequence);
    return found == sequences_.end() ? nullptr : found->second.get();
}

std::shared_ptr<ScheduledRequest> RequestTable::find_request(RequestId request) const {
    const auto found = requests_.find(request);
    return found == requests_.end() ? nullptr : found->second;
}

void RequestTable::choose_prompt_sequence(ScheduledRequest& request) const {
    for (SequenceId id = request.first; id < request.end(); ++id) {
        const ScheduledSequence* candidate = find(id);
        if (candidate == nullptr || candidate->sequence.state == SequenceState::finished) continue;
        request.prompt_sequence = id;
        return;
    }
}

void RequestTable::forget_computed_prompts() {
    for (auto& [id, request] : requests_) {
        request->prompt_computed = false;
        choose_prompt_sequence(*request);
    }
}

void RequestTable::forget_retired() {
    std::erase_if(retired_, [this](const ScheduledSequence* sequence) {
        if (sequence->num_plans > 0) return false;
        sequences_.erase(sequence->sequence.id);
        return true;
    });
}

}  // namespace nvllm
