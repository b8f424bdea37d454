// From the start of a process to a ready engine and to the first token, in fresh processes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

// Milliseconds of one fresh process, told by the process itself but for the last.
struct StartupSample {
    double process_ms = 0.0;      // from the request to make the process to its main()
    double ready_ms = 0.0;        // from main() to a ready engine
    double first_token_ms = 0.0;  // from main() to the first token
    double total_ms = 0.0;        // from the request to make the process to the first token
};

// Runs `arguments` (a program's path first) and reads the JSON line it prints: {"main_s":
// CLOCK_MONOTONIC seconds at main(), "ready_ms": ..., "first_token_ms": ...}. Standard error is the
// caller's. Throws unavailable when the program cannot be started, fails or says something else.
StartupSample measure_startup(const std::vector<std::string>& arguments);

// Keys {mean,median,std}_{process,ready,first_token,total}_ms and samples.
nlohmann::ordered_json startup_json(std::span<const StartupSample> samples);
std::string startup_table(std::span<const StartupSample> samples);

}  // namespace nvllm
