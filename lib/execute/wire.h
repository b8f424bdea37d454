// What an engine and a worker in another process say to each other, as bytes.
//
// A frame is a head of 8 bytes (payload bytes: uint32; version and kind: uint16 each) and a
// payload; all numbers are little-endian. A payload is the message's fields in the order of
// wire_fields.h: numbers as they are, texts and lists after their length as uint32, an optional
// after a byte 0 or 1. Both ends come from one build, so nothing is ever skipped: another version,
// a byte too few or too many, or a value that its field cannot have is a fault. A reader believes
// nothing: no memory is taken for a length before so much is really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "lib/execute/ranks/rank_probe.h"
#include "lib/execute/worker_setup.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

inline constexpr uint16_t kWireVersion = 10;
inline constexpr size_t kFrameHeadBytes = 8;
// A plan that adds 128 sequences of a million tokens has 512 MiB.
inline constexpr uint32_t kMaxPayloadBytes = uint32_t{1} << 30;

enum class MessageKind : uint16_t {
    setup = 1,  // to the worker, once, before all else
    ready,      // its answer
    plan,       // to the worker
    result,     // its answer; to a rank that does not choose tokens: what the other one chose
    forget,     // to the worker: everything it knows of sequences; no answer
    others,     // to the worker: a step in which other replicas alone compute
    probe,      // to the worker, instead of a setup: measure, and end
    rates,      // its answer
    fault,      // instead of ready, result or rates
};

// Everything the worker was told of sequences is to be forgotten.
struct ForgetSequences {};

// Experts that this rank has are wanted by ranks of other replicas. Answered by a result, of plan
// number 0.
struct StepOfOthers {};

// Why the worker could not do what it was asked to. It goes on unless it could not start.
struct WorkerFault {
    ErrorKind kind = ErrorKind::internal;
    std::string message;
    bool out_of_memory = false;
};

using Bytes = std::vector<uint8_t>;

// The message as a frame, in place of what `frame` held. Its payload must be allowed.
// Throws does_not_fit when it is larger than that.
void write_frame(const WorkerSetup& message, Bytes& frame);
void write_frame(const WorkerReady& message, Bytes& frame);
void write_frame(const BatchPlan& message, Bytes& frame);
void write_frame(const StepResult& message, Bytes& frame);
void write_frame(const ForgetSequences& message, Bytes& frame);
void write_frame(const StepOfOthers& message, Bytes& frame);
void write_frame(const RankProbe& message, Bytes& frame);
void write_frame(const RankRates& message, Bytes& frame);
void write_frame(const WorkerFault& message, Bytes& frame);

struct FrameHead {
    MessageKind kind = MessageKind::setup;
    uint32_t payload_bytes = 0;
};

// Throws bad_data for another version, an unknown kind, or more bytes than a payload may have.
FrameHead read_frame_head(std::span<const uint8_t, kFrameHeadBytes> head);

// The message that a payload is. Throws bad_data when it is none of this kind. Message: any of
// those that write_frame() takes.
template <typename Message>
Message read_payload(std::span<const uint8_t> payload);

}  // namespace nvllm
