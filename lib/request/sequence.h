// One continuation of a request and where it stands: plain data and its few lawful steps.
//
//   waiting --> running --> finished
//      ^         |   ^
//      |         v   |     pause(): gives up its slot, keeps its blocks; resume(): the other way
//      |        paused
//      |          |        preempt(): from running or paused; keeps all tokens, and nothing of what
//      +----------+        was computed
//                 |
//              swapped     swap_out(): the same, but what was computed is kept in host memory;
//                          swap_in(): running again
//
//   waiting --> awaiting_blocks --> paused      await_blocks(): has blocks that somebody else
//      ^               |                        fills; receive_blocks(): they did
//      +---------------+                        withdraw(): they did not
//
// Invariant: num_computed + num_in_flight <= token_ids.size() + num_expected; a sequence that waits
// or has finished has nothing in flight. Times are on the engine's clock and handed in: nothing
// here reads a clock.
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
    int32_t index = 0;  // which of the request's n continuations
    int32_t priority = 0;

    std::vector<int32_t> token_ids;  // prompt, then generated
    int32_t num_prompt_tokens = 0;
    int32_t longest_length = 0;  // prompt and answer at most; the scheduler knows the context
    int32_t num_computed = 0;    // leading tokens whose keys and values are committed
    int32_t num_in_flight = 0;   // after those, planned and not committed yet
    int32_t num_expected = 0;    // tokens that plans under way choose and later ones may compute
    // Found in the cache, or filled by somebody else, when it was first let in; empty before.
    std::optional<int32_t> num_cached_tokens;

    SequenceState state = SequenceState::waiting;
    std::optional<FinishReason> finish_reason;
    int32_t num_preemptions = 0;  // by recomputation or by swapping
    int32_t num_pauses = 0;

    // What policies look at, besides the above.
    uint64_t turn = 0;            // grows with each time a sequence takes its place in the queue
    int32_t num_slice_steps = 0;  // steps since it came in or was resumed
    bool has_turn = false;        // came in by the turn of the oldest: yields to nobody
    double waited_s = 0.0;        // in all, until state_since_s

    double state_since_s = 0.0;
    double arrival_s = 0.0;
    std::optional<double> first_scheduled_s;
    std::optional<double> first_token_s;
    std::optional<double> finished_s;

    // A sequence that waits. REQUIRES: 0 <= index < n.
    static Sequence waiting(const Request& request, SequenceId id, int32_t index);

    int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
    int32_t num_generated() const { return num_tokens() - num_prompt_tokens; }
    std::span<const int32_t> generated() const {
        return std::span(token_ids).subspan(static_cast<size_t>(num_prompt_tokens));
    }
    // The first position that no plan computes yet.
    int32_t num_planned() const { return num_computed + num_in_flight; }
    // Known and expected tokens that no plan computes yet.
    int32_t num_unplanned() const { return num_tokens() + num_expected - num_planned(); }
    // Positions to compute until the end, when the answer becomes as long as it may.
    int32_t num_remaining() const { return longest_length - num_computed; }
    // Seconds without a slot, up to now.
    double waited(double now_s) const;

    // Its slot is wanted for another. REQUIRES: running; nothing is in flight.
    void pause(double now_s);
    // REQUIRES: paused.
    void resume(double now_s);
    // Let in, with its first tokens found in the cache. REQUIRES: waiting.
    void start(int32_t num_cached, double now_s);
    // The next tokens are in a plan. REQUIRES: running; that many are unplanned.
    void plan(int32_t count);
    // The token that the plan chooses may be computed before it is known. REQUIRES: the plan goes
    // to the last token, known or expected.
    void expect();
    // The plan is not made after all. REQUIRES: the last plan() was of `count`.
    void take_back(int32_t count);
    // The oldest planned tokens are computed, and these came out. REQUIRES: running; `count` are in
    // flight.
    void commit(int32_t count, std::span<const int32_t> sampled, double now_s);
    // What was computed goes to host memory. REQUIRES: running or paused; nothing is in flight.
    void swap_out(double now_s);
    // REQUIRES: swapped.
    void swap_in(double now_s);
    // Its first tokens are computed elsewhere. REQUIRES: waiting.
    void await_blocks(double now_s);
    // `count` of them were. REQUIRES: awaiting_blocks; one token at least is left over.
    void receive_blocks(int32_t count, double now_s);
    // Everything computed is given up, all tokens are kept. REQUIRES: neither waiting nor finished.
    void withdraw(double now_s);
    // The same for want of blocks or of the worker: counted.
    void preempt(double now_s);
    // Becomes a copy of `parent`, with what that has computed, or nothing when `parent` has no
    // blocks. REQUIRES: nothing of either is in flight; waiting or running, and not finished.
    void fork_from(const Sequence& parent, bool shares_blocks, double now_s);
    // REQUIRES: not finished.
    void finish(FinishReason reason, double now_s);

  private:
    void enter(SequenceState next, double now_s);
};

}  // namespace nvllm
