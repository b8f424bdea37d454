// The state of an engine and counts of its faults: plain data.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nvllm {

enum class EngineState : uint8_t {
    running,
    recovering,  // the worker died and restarts; requests wait and lose nothing
    stalled,     // work waits and nothing has moved for longer than the watchdog allows
    failed,      // the worker could not be started again: every request ends with unavailable
};

// "running", "recovering", "stalled", "failed".
const char* engine_state_name(EngineState state);

struct EngineHealth {
    EngineState state = EngineState::running;
    // Since the last progress of the loop while requests are open; 0 while none is.
    double seconds_since_heartbeat = 0.0;
    int64_t worker_restarts = 0;
    int64_t weight_reloads = 0;
    std::optional<int> worker_pid;  // with isolation by process, while there is one
    std::string last_fault;         // the latest one's cause; empty: none yet
};

// Counts since the start.
struct FaultCounts {
    int64_t worker_restarts = 0;  // workers started to replace dead ones
    int64_t step_faults = 0;      // failed steps: worker died, no memory, or a fault
    int64_t nonfinite_rows = 0;   // sequences that ended because their logits were not numbers
    int64_t weight_reloads = 0;   // because of too many of those
    int64_t out_of_memory = 0;    // of the step faults
    // When the last of these was; the clock's epoch: never.
    std::chrono::steady_clock::time_point last_out_of_memory{};
};

}  // namespace nvllm
