// What was written, loaded again and run beside what it was made of, before anybody else gets it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {

struct WrittenModel {
    std::filesystem::path folder;
    // What was solved of a block; empty: nothing of it changed.
    std::function<std::optional<SolvedBlock>(int32_t block)> solved;
};

// Runs a few tokens through each block of the written model and of the one that it was made of, in
// the memory of one block of each. Returns for each block |written - dense|^2 / |what the dense
// block adds|^2. Throws bad_data when the written model does not load, gives what is no number, or
// gives something else than was solved.
std::vector<double> verify_written(HookedModel& model, const ModelPlan& plan,
                                   const WrittenModel& written, std::span<const int32_t> tokens);

}  // namespace nvllm::quantize
