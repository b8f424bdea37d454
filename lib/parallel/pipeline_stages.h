// Which blocks each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

struct PipelineStage {
    int32_t first_block = 0;
    int32_t num_blocks = 0;
};

// Whether a stage has what is cached under this number: a block's, or of a second thing that it
// caches one above all blocks'. True where `stages` is empty: there is one.
bool has_cached_layer(std::span<const PipelineStage> stages, int32_t stage, int32_t layer);

// Neighbouring blocks for each of `stages`, so that the costliest stage costs as little as can be;
// of several such divisions, the one whose first stages have the fewest blocks. `costs`: of each
// block; `first` and `last`: what the first and the last stage have in addition. A border stands
// only where `may_end` is true for the block before it. Empty where there are too few borders.
std::vector<PipelineStage> divide_blocks(std::span<const uint64_t> costs, uint64_t first,
                                         uint64_t last, const std::vector<bool>& may_end,
                                         int32_t stages);

}  // namespace nvllm
