// How many tokens chose each expert of a layer: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nvllm {

struct ExpertLoad {
    std::string block;            // "model.layers.3"
    std::vector<int64_t> tokens;  // by expert

    bool operator==(const ExpertLoad&) const = default;
};

// Of the same blocks element by element; blocks that `sum` has not are appended.
void add_expert_load(const std::vector<ExpertLoad>& load, std::vector<ExpertLoad>& sum);

}  // namespace nvllm
