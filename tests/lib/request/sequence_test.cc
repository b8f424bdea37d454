// The allowed transitions of a sequence, and forbidden ones.
#include "lib/request/sequence.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

Request three_tokens() {
    Request request;
    request.id = 9;
    request.prompt_token_ids = {4, 5, 6};
    request.sampling.n = 2;
    request.priority = -3;
    request.arrival_s = 1.5;
    return request;
}

TEST_CASE("a sequence goes from waiting over chunks to generated tokens and its end") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 1);
    CHECK(sequence.request_id == 9);
    CHECK(sequence.priority == -3);
    CHECK(sequence.num_prompt_tokens == 3);
    CHECK_FALSE(sequence.num_cached_tokens.has_value());
    sequence.start(0, 2.0);
    sequence.plan(2);
    CHECK(sequence.num_planned() == 2);
    CHECK(sequence.num_unplanned() == 1);
    sequence.plan(1);
    sequence.commit(2, {}, 3.0);
    CHECK(sequence.num_computed == 2);
    CHECK(sequence.num_in_flight == 1);
    CHECK_FALSE(sequence.first_token_s.has_value());
    const std::vector<int32_t> sampled{8};
    sequence.commit(1, sampled, 4.0);
    CHECK(sequence.num_generated() == 1);
    CHECK(sequence.generated()[0] == 8);
    CHECK(sequence.num_unplanned() == 1);
    CHECK(sequence.first_scheduled_s == 2.0);
    CHECK(sequence.first_token_s == 4.0);
    sequence.finish(FinishReason::stop, 5.0);
    CHECK(sequence.state == SequenceState::finished);
    CHECK(sequence.finished_s == 5.0);
}

TEST_CASE("a preempted sequence keeps its tokens and the first times") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 0);
    sequence.start(2, 2.0);
    sequence.plan(1);
    sequence.take_back(1);
    sequence.plan(1);
    const std::vector<int32_t> sampled{8};
    sequence.commit(1, sampled, 3.0);
    sequence.preempt(5.0);
    CHECK(sequence.state == SequenceState::waiting);
    CHECK(sequence.num_tokens() == 4);
    CHECK(sequence.num_computed == 0);
    CHECK(sequence.num_preemptions == 1);
    sequence.start(0, 9.0);
    CHECK(sequence.first_scheduled_s == 2.0);
    CHECK(sequence.num_cached_tokens == 2);
}

TEST_CASE("a sequence goes on from what was computed elsewhere, or waits again") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 0);
    CHECK_THROWS_AS(sequence.receive_blocks(1, 2.0), Error);
    sequence.await_blocks(2.0);
    CHECK(std::string(sequence_state_name(sequence.state)) == "awaiting_blocks");
    CHECK(sequence.state_since_s == 2.0);
    CHECK_THROWS_AS(sequence.await_blocks(2.5), Error);
    CHECK_THROWS_AS(sequence.start(0, 2.5), Error);
    sequence.withdraw(3.0);
    CHECK(sequence.state == SequenceState::waiting);
    CHECK(sequence.num_preemptions == 0);
    sequence.await_blocks(4.0);
    CHECK_THROWS_AS(sequence.receive_blocks(3, 5.0), Error);
    sequence.receive_blocks(2, 5.0);
    CHECK(sequence.state == SequenceState::paused);
    CHECK(sequence.num_computed == 2);
    CHECK(sequence.num_cached_tokens == 2);
    CHECK(sequence.waited(6.0) == doctest::Approx(4.5));
    CHECK_FALSE(sequence.first_scheduled_s.has_value());
    sequence.resume(6.0);
    CHECK(sequence.first_scheduled_s == 6.0);
    CHECK(sequence.num_pauses == 0);
}

TEST_CASE("forbidden transitions are our mistakes") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 0);
    CHECK_THROWS_AS(sequence.plan(1), Error);
    CHECK_THROWS_AS(sequence.preempt(6.0), Error);
    CHECK_THROWS_AS(sequence.commit(0, {}, 0.0), Error);
    sequence.start(0, 0.0);
    CHECK_THROWS_AS(sequence.start(0, 0.0), Error);
    CHECK_THROWS_AS(sequence.plan(4), Error);
    CHECK_THROWS_AS(sequence.plan(0), Error);
    CHECK_THROWS_AS(sequence.commit(1, {}, 0.0), Error);
    CHECK_THROWS_AS(sequence.take_back(1), Error);
    sequence.finish(FinishReason::length, 0.0);
    CHECK_THROWS_AS(sequence.finish(FinishReason::length, 0.0), Error);
    CHECK_THROWS_AS(Sequence::waiting(three_tokens(), 7, 2), Error);
}

TEST_CASE("finish reasons have the words of the API") {
    CHECK(std::string(finish_reason_name(FinishReason::stop)) == "stop");
    CHECK(std::string(finish_reason_name(FinishReason::length)) == "length");
    CHECK(std::string(finish_reason_name(FinishReason::cancelled)) == "abort");
    CHECK(std::string(finish_reason_name(FinishReason::error)) == "error");
}

TEST_CASE("rejected drafts are rolled back before the commit of the others") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 0);
    sequence.start(0, 2.0);
    CHECK_THROWS_AS(sequence.plan_drafts(1), Error);
    sequence.plan(3);
    sequence.plan_drafts(4);
    CHECK(sequence.num_planned() == 7);
    CHECK(sequence.num_unplanned() == 0);
    CHECK_THROWS_AS(sequence.plan_drafts(1), Error);
    CHECK_THROWS_AS(sequence.roll_back(5, 4), Error);
    sequence.roll_back(3, 4);
    const std::vector<int32_t> sampled{8, 9};
    sequence.commit(4, sampled, 3.0);
    CHECK(sequence.num_computed == 4);
    CHECK(sequence.num_in_flight == 0);
    CHECK(sequence.num_placeholders == 0);
    CHECK(sequence.num_unplanned() == 1);
    sequence.plan(1);
    sequence.plan_drafts(2);
    sequence.preempt(4.0);
    CHECK(sequence.num_placeholders == 0);
    CHECK(sequence.num_unplanned() == 5);
}

TEST_CASE("a placeholder can be planned before its token is known") {
    Sequence sequence = Sequence::waiting(three_tokens(), 7, 0);
    sequence.start(0, 2.0);
    sequence.plan(3);
    sequence.add_placeholder();
    CHECK(sequence.num_unplanned() == 1);
    CHECK_THROWS_AS(sequence.add_placeholder(), Error);
    sequence.plan(1);
    const std::vector<int32_t> sampled{8};
    sequence.commit(3, sampled, 3.0);
    CHECK(sequence.num_placeholders == 0);
    CHECK(sequence.num_unplanned() == 0);
}

}  // namespace
}  // namespace nvllm
