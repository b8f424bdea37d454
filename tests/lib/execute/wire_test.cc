// Messages as bytes and back; what is no message is refused.
#include "lib/execute/wire.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/lib/execute/random_messages.h"

using namespace nvllm;

namespace {

std::span<const uint8_t> payload_of(const Bytes& frame) {
    return std::span(frame).subspan(kFrameHeadBytes);
}

FrameHead head_of(const Bytes& frame) {
    return read_frame_head(
        std::span<const uint8_t, kFrameHeadBytes>(frame.data(), kFrameHeadBytes));
}

template <typename Message>
void check_round_trips(MessageKind kind) {
    test::RandomFields random(static_cast<uint64_t>(kind));
    for (int round = 0; round < 200; ++round) {
        const auto message = random.message<Message>();
        Bytes frame;
        write_frame(message, frame);
        CHECK(head_of(frame).kind == kind);
        CHECK(head_of(frame).payload_bytes == frame.size() - kFrameHeadBytes);
        Bytes again;
        write_frame(read_payload<Message>(payload_of(frame)), again);
        REQUIRE(again == frame);
    }
}

BatchPlan decode_plan(int32_t num_sequences) {
    BatchPlan plan;
    plan.number = 7;
    for (int32_t i = 0; i < num_sequences; ++i) {
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = static_cast<SequenceId>(i + 1);
        entry.first = 100 + i;
        entry.count = 1;
        entry.output = OutputKind::sample;
        if (i % 16 == 0) entry.new_blocks = {{i}};
    }
    return plan;
}

StepResult decode_result(int32_t num_sequences) {
    StepResult result;
    result.plan_number = 7;
    for (int32_t i = 0; i < num_sequences; ++i) {
        SequenceStep& step = result.sequences.emplace_back();
        step.sequence = static_cast<SequenceId>(i + 1);
        step.token_ids = {i};
    }
    return result;
}

}  // namespace

TEST_CASE("every message comes back as it was sent, whatever is in its fields") {
    check_round_trips<WorkerSetup>(MessageKind::setup);
    check_round_trips<WorkerReady>(MessageKind::ready);
    check_round_trips<BatchPlan>(MessageKind::plan);
    check_round_trips<StepResult>(MessageKind::result);
    check_round_trips<ForgetSequences>(MessageKind::forget);
    check_round_trips<StepOfOthers>(MessageKind::others);
    check_round_trips<RankProbe>(MessageKind::probe);
    check_round_trips<RankRates>(MessageKind::rates);
    check_round_trips<WorkerFault>(MessageKind::fault);
}

TEST_CASE("fields are those that were sent") {
    BatchPlan plan = decode_plan(3);
    plan.removed = {9, 8};
    plan.added.emplace_back().sampling.stop = {"end", ""};
    plan.added[0].sampling.seed = UINT64_MAX;
    plan.added[0].block_tables = {{1, 2}, {}};
    Bytes frame;
    write_frame(plan, frame);
    const auto read = read_payload<BatchPlan>(payload_of(frame));
    CHECK(read.number == 7);
    CHECK(read.removed == plan.removed);
    CHECK(read.added.at(0).sampling.stop == plan.added[0].sampling.stop);
    CHECK(read.added[0].sampling.seed == UINT64_MAX);
    CHECK_FALSE(read.added[0].sampling.logprobs);
    CHECK(read.added[0].block_tables == plan.added[0].block_tables);
    CHECK(read.entries.at(1).first == 101);
    CHECK(read.entries[0].new_blocks == plan.entries[0].new_blocks);
    CHECK(read.entries[2].output == OutputKind::sample);
}

TEST_CASE("drafts with parents, masks and adapters come back, and so do accepted rows") {
    BatchPlan plan = decode_plan(3);
    plan.added.emplace_back().adapter = 12;
    plan.extras.push_back(
        {.entry = 0, .drafts = {{5, 6, 7}, {0, 0, 2}}, .token_mask = {}, .num_next_drafts = 4});
    plan.extras.push_back({.entry = 2, .drafts = {}, .token_mask = {0xffffffffu, 0, 1u << 31}});
    Bytes frame;
    write_frame(plan, frame);
    const auto read = read_payload<BatchPlan>(payload_of(frame));
    CHECK(read.added.at(0).adapter == 12);
    CHECK(read.extras == plan.extras);
    StepResult result = decode_result(3);
    result.extras.push_back({.entry = 1, .accepted_rows = {1, 3}, .next_drafts = {{8, 9}, {0, 1}}});
    write_frame(result, frame);
    CHECK(read_payload<StepResult>(payload_of(frame)).extras == result.extras);
}

TEST_CASE("lengths inside extras take no memory that is not there") {
    BatchPlan plan;
    plan.extras.push_back({.entry = 0, .drafts = {{5}, {0}}, .token_mask = {1}});
    Bytes frame;
    write_frame(plan, frame);
    // Each of the last three lists is a length of 4 bytes and one number of 4 bytes; a number
    // follows them, then the length of no changes of adapters and a byte.
    for (const size_t from_end : {17, 25, 33}) {
        Bytes changed = frame;
        std::memset(changed.data() + changed.size() - from_end, 0xff, 4);
        CHECK_THROWS_AS(read_payload<BatchPlan>(payload_of(changed)), Error);
    }
}

TEST_CASE("a message that is cut off anywhere is refused, and so is one with more to it") {
    test::RandomFields random(5);
    const auto plan = random.message<BatchPlan>();
    Bytes frame;
    write_frame(plan, frame);
    const std::span<const uint8_t> payload = payload_of(frame);
    REQUIRE(payload.size() > 100);
    for (size_t size = 0; size < payload.size(); ++size) {
        CHECK_THROWS_AS(read_payload<BatchPlan>(payload.first(size)), Error);
    }
    frame.push_back(0);
    CHECK_THROWS_AS(read_payload<BatchPlan>(payload_of(frame)), Error);
}

TEST_CASE("a length that nothing follows takes no memory") {
    // The first list of a plan, after its number: four thousand million elements in four bytes.
    const Bytes payload = {1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0};
    CHECK_THROWS_AS(read_payload<BatchPlan>(payload), Error);
    const Bytes texts = {0, 255, 255, 255, 127};
    CHECK_THROWS_AS(read_payload<WorkerFault>(texts), Error);
}

TEST_CASE("values that a field cannot have are refused") {
    Bytes frame;
    write_frame(WorkerFault{ErrorKind::io, "", true}, frame);
    CHECK(read_payload<WorkerFault>(payload_of(frame)).out_of_memory);
    frame.back() = 2;  // neither true nor false
    CHECK_THROWS_AS(read_payload<WorkerFault>(payload_of(frame)), Error);
    frame.back() = 1;
    frame[kFrameHeadBytes] = 200;  // no kind of error
    CHECK_THROWS_AS(read_payload<WorkerFault>(payload_of(frame)), Error);
}

TEST_CASE("a message with any byte changed is refused or is another message") {
    test::RandomFields random(11);
    Bytes frame;
    write_frame(random.message<StepResult>(), frame);
    for (size_t place = kFrameHeadBytes; place < frame.size(); ++place) {
        for (const uint8_t change : {uint8_t{1}, uint8_t{0x80}, uint8_t{0xff}}) {
            frame[place] ^= change;
            try {
                Bytes again;
                write_frame(read_payload<StepResult>(payload_of(frame)), again);
                CHECK(again == frame);
            } catch (const Error& error) {
                CHECK(error.kind() == ErrorKind::bad_data);
            }
            frame[place] ^= change;
        }
    }
}

TEST_CASE("heads of another version, of no kind, or of too much are refused") {
    Bytes frame;
    write_frame(ForgetSequences{}, frame);
    REQUIRE(frame.size() == kFrameHeadBytes);
    for (const auto& [place, value] : {std::pair{4, 99}, {6, 0}, {6, 77}, {7, 1}, {3, 0xff}}) {
        Bytes changed = frame;
        changed[static_cast<size_t>(place)] = static_cast<uint8_t>(value);
        CHECK_THROWS_AS(head_of(changed), Error);
    }
}

TEST_CASE("a decode step of 64 sequences is a few thousand bytes") {
    Bytes plan;
    Bytes result;
    write_frame(decode_plan(64), plan);
    write_frame(decode_result(64), result);
    MESSAGE("64 sequences, one token each: plan " << plan.size() << " bytes, result "
                                                  << result.size() << " bytes");
    CHECK(plan.size() < 64 * 40);
    CHECK(result.size() < 64 * 40);
}
