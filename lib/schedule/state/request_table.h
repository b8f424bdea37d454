// Owns the requests and sequences that the scheduler knows.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

class RequestTable {
  public:
    // Null if a request with this id is in flight.
    std::shared_ptr<ScheduledRequest> add_request(const Request& request);
    ScheduledSequence& add_sequence(std::unique_ptr<ScheduledSequence> sequence);
    // Ids ascend from 1; the sequences of a request have consecutive ones.
    SequenceId next_id() { return next_id_++; }

    // Null if unknown.
    ScheduledSequence* find(SequenceId sequence) const;
    std::shared_ptr<ScheduledRequest> find_request(RequestId request) const;
    const std::unordered_map<SequenceId, std::unique_ptr<ScheduledSequence>>& sequences() const {
        return sequences_;
    }

    // The first sequence that has not finished computes the prompt: it is also the first of them
    // in the queue.
    void choose_prompt_sequence(ScheduledRequest& request) const;
    // For a new worker every request computes its prompt again.
    void forget_computed_prompts();

    // A finished sequence stays known until forget_retired().
    void retire(ScheduledSequence& sequence) { retired_.push_back(&sequence); }
    // Sequences that an uncommitted plan names stay.
    void forget_retired();
    // REQUIRES: no sequence of it is active. Sequences that are still known keep it alive.
    void remove_request(const ScheduledRequest& request) { requests_.erase(request.request.id); }

  private:
    SequenceId next_id_ = 1;
    std::unordered_map<SequenceId, std::unique_ptr<ScheduledSequence>> sequences_;
    std::unordered_map<RequestId, std::shared_ptr<ScheduledRequest>> requests_;  // active ones
    std::vector<ScheduledSequence*> retired_;  // finished, still known
};

}  // namespace nvllm
