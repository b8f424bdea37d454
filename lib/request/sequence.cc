// The allowed transitions of a sequence.
#include "lib/request/sequence.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {

Sequence Sequence::waiting(const Request& request, SequenceId id, int32_t index) {
    NVLLM_CHECK(index >= 0 && index < request.sampling.num_sequences(),
                "the request has no sequence with this index");
    Sequence sequence;
    sequence.id = id;
    sequence.request_id = request.id;
    sequence.index = index;
    sequence.priority = request.priority;
    sequence.token_ids = request.prompt_token_ids;
    sequence.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    sequence.num_stable_tokens = request.num_stable_tokens;
    sequence.message_borders = request.message_borders;
    sequence.arrival_s = request.arrival_s;
    sequence.state_since_s = request.arrival_s;
    return sequence;
}

const char* sequence_state_name(SequenceState state) {
    switch (state) {
        case SequenceState::waiting:
            return "waiting";
        case SequenceState::running:
            return "running";
        case SequenceState::paused:
            return "paused";
        case SequenceState::swapped:
            return "swapped";
        case SequenceState::awaiting_blocks:
            return "awaiting_blocks";
        case SequenceState::finished:
            return "finished";
    }
    return "";
}

double Sequence::waited(double now_s) const {
    const bool waits = state != SequenceState::running && state != SequenceState::finished;
    return waited_s + (waits ? now_s - state_since_s : 0.0);
}

void Sequence::enter(SequenceState next, double now_s) {
    waited_s = waited(now_s);
    state = next;
    state_since_s = now_s;
    num_slice_steps = 0;
}

void Sequence::pause(double now_s) {
    NVLLM_CHECK(state == SequenceState::running && num_in_flight == 0,
                "only a running sequence with nothing in flight is paused");
    enter(SequenceState::paused, now_s);
    ++num_pauses;
}

void Sequence::resume(double now_s) {
    NVLLM_CHECK(state == SequenceState::paused, "only a paused sequence is resumed");
    enter(SequenceState::running, now_s);
    if (!first_scheduled_s) first_scheduled_s = now_s;
}

void Sequence::start(int32_t num_cached, double now_s) {
    NVLLM_CHECK(state == SequenceState::waiting, "only a waiting sequence is admitted");
    enter(SequenceState::running, now_s);
    num_computed = num_cached;
    if (!num_cached_tokens) num_cached_tokens = num_cached;
    if (!first_scheduled_s) first_scheduled_s = now_s;
}

void Sequence::plan(int32_t count) {
    NVLLM_CHECK(state == SequenceState::running, "only a running sequence is planned");
    NVLLM_CHECK(count >= 1 && count <= num_unplanned(),
                "a plan is for known tokens and placeholders");
    num_in_flight += count;
}

void Sequence::plan_drafts(int32_t count) {
    NVLLM_CHECK(num_in_flight > 0 && num_unplanned() == 0 && num_placeholders == 0,
                "drafts follow the last known token, which is in the same plan");
    num_placeholders = count;
    num_in_flight += count;
}

void Sequence::roll_back(int32_t num_rejected, int32_t num_drafts) {
    NVLLM_CHECK(num_rejected <= num_drafts && num_drafts == num_placeholders,
                "only drafts are rejected");
    num_placeholders = 0;
    num_in_flight -= num_rejected;
}

void Sequence::add_placeholder() {
    NVLLM_CHECK(num_in_flight > 0 && num_unplanned() == 0, "a token is chosen after the last one");
    ++num_placeholders;
}

void Sequence::take_back(int32_t count) {
    NVLLM_CHECK(count <= num_in_flight, "only what is planned is taken back");
    num_in_flight -= count;
}

void Sequence::commit(int32_t count, std::span<const int32_t> sampled, double now_s) {
    NVLLM_CHECK(state == SequenceState::running, "only a running sequence advances");
    NVLLM_CHECK(count <= num_in_flight, "only what is planned is committed");
    num_in_flight -= count;
    num_computed += count;
    ++num_slice_steps;
    for (const int32_t token : sampled) token_ids.push_back(token);
    num_placeholders -= std::min(num_placeholders, static_cast<int32_t>(sampled.size()));
    if (!sampled.empty() && !first_token_s) first_token_s = now_s;
}

void Sequence::swap_out(double now_s) {
    NVLLM_CHECK(
        (state == SequenceState::running || state == SequenceState::paused) && num_in_flight == 0,
        "only a running or paused sequence with nothing in flight is swapped out");
    enter(SequenceState::swapped, now_s);
    ++num_preemptions;
}

void Sequence::swap_in(double now_s) {
    NVLLM_CHECK(state == SequenceState::swapped, "only a swapped sequence comes back");
    enter(SequenceState::running, now_s);
}

void Sequence::await_blocks(double now_s) {
    NVLLM_CHECK(state == SequenceState::waiting, "only a waiting sequence awaits blocks");
    enter(SequenceState::awaiting_blocks, now_s);
}

void Sequence::receive_blocks(int32_t count, double now_s) {
    NVLLM_CHECK(state == SequenceState::awaiting_blocks,
                "only a sequence that awaits blocks receives them");
    NVLLM_CHECK(count >= 0 && count < num_tokens(), "a token is left to compute");
    enter(SequenceState::paused, now_s);
    num_computed = count;
    if (!num_cached_tokens) num_cached_tokens = count;
}

void Sequence::withdraw(double now_s) {
    NVLLM_CHECK(state != SequenceState::waiting && state != SequenceState::finished,
                "only an admitted sequence gives up its KV");
    enter(SequenceState::waiting, now_s);
    num_computed = 0;
    num_in_flight = 0;
    num_placeholders = 0;
}

void Sequence::preempt(double now_s) {
    withdraw(now_s);
    ++num_preemptions;
}

void Sequence::fork_from(const Sequence& parent, bool shares_blocks, double now_s) {
    NVLLM_CHECK(num_in_flight == 0 && parent.num_in_flight == 0 && state != SequenceState::finished,
                "beams fork when nothing of them is in flight");
    token_ids = parent.token_ids;
    num_computed = shares_blocks ? parent.num_computed : 0;
    const SequenceState next = shares_blocks ? SequenceState::running : SequenceState::waiting;
    if (state != next) enter(next, now_s);
    if (!num_cached_tokens) num_cached_tokens = parent.num_cached_tokens;
    if (!first_scheduled_s) first_scheduled_s = parent.first_scheduled_s;
    if (!first_token_s) first_token_s = parent.first_token_s;
}

void Sequence::finish(FinishReason reason, double now_s) {
    NVLLM_CHECK(state != SequenceState::finished, "a sequence finishes once");
    enter(SequenceState::finished, now_s);
    finish_reason = reason;
    num_in_flight = 0;
    num_placeholders = 0;
    finished_s = now_s;
}

}  // namespace nvllm
