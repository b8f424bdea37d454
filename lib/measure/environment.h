// Where and how a figure was measured: the record that stands beside every result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nvllm {

struct EnvironmentInput {
    std::string version;                 // the program's
    std::string model;                   // directory or name; empty: none took part
    std::vector<std::string> arguments;  // the whole command line
    int threads = 0;                     // compute threads; 0: one for each usable core
};

// An object: cpu, cores (usable ones), isa, threads, memory_bytes (available), load_average
// [1, 5, 15 minutes], version, compiler, model, command, date (ISO 8601, local time with offset).
// What the system does not tell is null.
nlohmann::ordered_json environment_record(const EnvironmentInput& input);

// "Intel Xeon, 2 cores, avx512, load 0.3": a line for tables.
std::string describe_environment(const nlohmann::ordered_json& record);

// "20261120-140501" and "2026-11-20T14:05:01+0100" for now, local time.
std::string compact_time_stamp();
std::string iso_time_stamp();

}  // namespace nvllm
