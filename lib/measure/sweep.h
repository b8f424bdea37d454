// A grid of flags, each point of it measured in a fresh process, and what is left of it to do.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace nvllm {

// A flag with the values it takes in turn.
struct SweptFlag {
    std::string name;  // without dashes: "batch"
    std::vector<std::string> values;
};

// "batch=1,8,64". Values with commas in them cannot be given. Throws usage.
SweptFlag parse_swept_flag(const std::string& text);

// One point of the grid: "--batch 8 --input-len 128" as arguments.
using SweepPoint = std::vector<std::string>;

// The product of all flags' values; the last flag varies fastest. Throws usage above 100000 points.
std::vector<SweepPoint> sweep_points(const std::vector<SweptFlag>& flags);

// What a point is known by in the result file: its command line without the program, and which run
// of it.
std::string point_key(const std::vector<std::string>& command, int repeat);

// The keys ("sweep_key" of each line) that the file already has; empty for a file that does not
// exist. A last line that was cut off is taken away, others that are broken are bad_data.
std::set<std::string> finished_points(const std::filesystem::path& file);

// Runs the program, standard output dropped, and waits; its exit code, or 128 + its signal. Throws
// unavailable when it cannot be started.
int run_quietly(const std::vector<std::string>& arguments);

}  // namespace nvllm
