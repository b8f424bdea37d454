// The options of adapters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvllm {

struct LoraOptions {
    bool enabled = false;                  // requests may name adapters, which may come later
    std::vector<std::string> modules;      // NAME=FOLDER of adapters that are there from the start
    std::string folder;                    // whose subfolders are adapters; empty: none
    std::optional<int32_t> max_loras;      // in one step; empty: 8
    std::optional<int32_t> max_rank;       // empty: that of the modules, at least kUsualRank
    std::optional<int32_t> max_cpu_loras;  // in host memory; empty: several times max_loras

    bool is_asked_for() const { return enabled || !modules.empty() || !folder.empty(); }
    int32_t slots() const { return max_loras.value_or(8); }
    bool has_limits() const { return max_loras || max_rank || max_cpu_loras; }
};

}  // namespace nvllm
