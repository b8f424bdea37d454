// One sequence of a request and its progress: plain data and its allowed transitions.
//
//   waiting --> running --> finished
//      ^         |   ^
//      |         v   |     pause(): gives up its slot, keeps its blocks; resume(): the reverse
//      |        paused
//      |          |        preempt(): from running or paused; keeps all tokens, but no computed KV
//      +----------+
//                 |
//              swapped     swap_out(): the same, but the computed KV is kept in host memory;
//                          swap_in(): running again
//
//   waiting --> awaiting_blocks --> paused      await_blocks(): has blocks that a remote source
//      ^               |                        fills; receive_blocks(): they arrived
//      +---------------+                        withdraw(): they did not
//
// Invariant: num_computed + num_in_flight <= token_ids.size() + num_placeholders; a sequence that
// waits or has finished has nothing in flight. Times are on the engine's clock and are arguments:
// no function reads a clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/request/request.h"

namespace nvllm {

enum class SequenceState : uint8_t { waiting, running, paused, swapped, awaiting_blocks, finished };

// "waiting", "running", ...
const char* sequence_state_name(SequenceState state);

struct Sequence {
    SequenceId id = 0;  // grows in the order of arrival
    RequestId request_id = 0;
    int32_t index = 0;  // among the sequences of the request
    int32_t priority = 0;

    std::vector<int32_t> token_ids;  // prompt, then generated
    int32_t num_prompt_tokens = 0;
    int32_t num_stable_tokens = 0;  // see Request
    std::vector<int32_t> message_borders = {};
    int32_t longest_length = 0;  // tokens of prompt and output, at most
    int32_t num_computed = 0;    // leading tokens whose keys and values are committed
    int32_t num_in_flight = 0;   // after those, planned and not committed yet
    // After token_ids: tokens that plans in flight choose and later plans may compute before they
    // are known, and draft tokens in flight.
    int32_t num_placeholders = 0;
    // Found in the cache, or filled by a remote source, at the first admission; empty before.
    std::optional<int32_t> num_cached_tokens;
    // Behind those at that time, tokens whose keys and values were cached, but no state.
    int32_t num_without_state = 0;
    std::optional<AdapterTier> adapter_tier = {};  // when its request came; empty: it has none

    SequenceState state = SequenceState::waiting;
    std::optional<FinishReason> finish_reason;
    int32_t num_preemptions = 0;  // by recomputation or by swapping
    int32_t num_pauses = 0;

    // Read by policies, in addition to the above.
    uint64_t turn = 0;            // ascends with each entry into the queue after a time slice
    int32_t num_slice_steps = 0;  // steps since it was admitted or resumed
    bool is_aged = false;         // admitted against starvation: not preempted for another
    double waited_s = 0.0;        // in all, until state_since_s

    double state_since_s = 0.0;
    double arrival_s = 0.0;
    std::optional<double> first_scheduled_s;
    std::optional<double> first_token_s;
    std::optional<double> finished_s;

    // A waiting sequence. REQUIRES: 0 <= index < n.
    static Sequence waiting(const Request& request, SequenceId id, int32_t index);

    int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
    int32_t num_generated() const { return num_tokens() - num_prompt_tokens; }
    std::span<const int32_t> generated() const {
        return std::span(token_ids).subspan(static_cast<size_t>(num_prompt_tokens));
    }
    // The first position that no plan computes yet.
    int32_t num_planned() const { return num_computed + num_in_flight; }
    // Known tokens and placeholders that no plan computes yet.
    int32_t num_unplanned() const { return num_tokens() + num_placeholders - num_planned(); }
    // Positions to compute until the end, if the output becomes as long as it may.
    int32_t num_remaining() const { return longest_length - num_computed; }
    // Seconds without a slot, up to now.
    double waited(double now_s) const;

    // Gives up its slot. REQUIRES: running; nothing is in flight.
    void pause(double now_s);
    // REQUIRES: paused.
    void resume(double now_s);
    // Is admitted, with its first tokens found in the cache. REQUIRES: waiting.
    void start(int32_t num_cached, double now_s);
    // The next tokens are in a plan. REQUIRES: running; that many are unplanned.
    void plan(int32_t count);
    // The same plan verifies draft tokens after the last known one. REQUIRES: everything known is
    // planned; there are no placeholders.
    void plan_drafts(int32_t count);
    // Of `num_drafts` drafts in flight, the last `num_rejected` positions are not computed. The
    // commit of the others follows.
    void roll_back(int32_t num_rejected, int32_t num_drafts);
    // The token that the plan chooses may be computed before it is known. REQUIRES: the plan
    // reaches the last known token or placeholder.
    void add_placeholder();
    // The plan is not made. REQUIRES: the last plan() was of `count`.
    void take_back(int32_t count);
    // The oldest planned tokens are computed, and these were sampled. REQUIRES: running; `count`
    // are in flight.
    void commit(int32_t count, std::span<const int32_t> sampled, double now_s);
    // Its KV moves to host memory. REQUIRES: running or paused; nothing is in flight.
    void swap_out(double now_s);
    // REQUIRES: swapped.
    void swap_in(double now_s);
    // A remote source computes its first tokens. REQUIRES: waiting.
    void await_blocks(double now_s);
    // `count` of them arrived. REQUIRES: awaiting_blocks; one token at least is left over.
    void receive_blocks(int32_t count, double now_s);
    // Waits again with all its tokens and no computed KV. REQUIRES: neither waiting nor finished.
    void withdraw(double now_s);
    // The same because blocks are missing or the worker was lost: counted.
    void preempt(double now_s);
    // Becomes a copy of `parent`, with its computed KV if they share blocks. REQUIRES: nothing of
    // either is in flight; waiting or running.
    void fork_from(const Sequence& parent, bool shares_blocks, double now_s);
    // REQUIRES: not finished.
    void finish(FinishReason reason, double now_s);

  private:
    void enter(SequenceState next, double now_s);
};

}  // namespace nvllm
