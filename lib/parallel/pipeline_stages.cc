// The linear partition problem, by dynamic programming over borders.
#include "lib/parallel/pipeline_stages.h"

#include <algorithm>
#include <limits>

namespace nvllm {

bool has_cached_layer(std::span<const PipelineStage> stages, int32_t stage, int32_t layer) {
    if (stages.empty()) return true;
    const int32_t block = layer % (stages.back().first_block + stages.back().num_blocks);
    const PipelineStage& own = stages[static_cast<size_t>(stage)];
    return block >= own.first_block && block < own.first_block + own.num_blocks;
}

std::vector<PipelineStage> divide_blocks(std::span<const uint64_t> costs, uint64_t first,
                                         uint64_t last, const std::vector<bool>& may_end,
                                         int32_t stages) {
    constexpr uint64_t kImpossible = std::numeric_limits<uint64_t>::max();
    const size_t blocks = costs.size();
    std::vector<uint64_t> sums(blocks + 1, 0);
    for (size_t i = 0; i < blocks; ++i) sums[i + 1] = sums[i] + costs[i];
    // best[s][b]: the costliest of the first s stages, which have the first b blocks.
    const auto num_stages = static_cast<size_t>(stages);
    std::vector<std::vector<uint64_t>> best(num_stages + 1,
                                            std::vector<uint64_t>(blocks + 1, kImpossible));
    std::vector<std::vector<size_t>> border(num_stages + 1, std::vector<size_t>(blocks + 1, 0));
    best[0][0] = 0;
    for (size_t stage = 1; stage <= num_stages; ++stage) {
        for (size_t end = stage; end <= blocks; ++end) {
            if (end < blocks && !may_end[end - 1]) continue;
            for (size_t begin = stage - 1; begin < end; ++begin) {
                if (best[stage - 1][begin] == kImpossible) continue;
                uint64_t cost = sums[end] - sums[begin];
                if (stage == 1) cost += first;
                if (stage == num_stages) cost += last;
                cost = std::max(cost, best[stage - 1][begin]);
                if (cost >= best[stage][end]) continue;
                best[stage][end] = cost;
                border[stage][end] = begin;
            }
        }
    }
    if (best[num_stages][blocks] == kImpossible) return {};
    std::vector<PipelineStage> result(num_stages);
    size_t end = blocks;
    for (size_t stage = num_stages; stage > 0; --stage) {
        const size_t begin = border[stage][end];
        result[stage - 1] = {static_cast<int32_t>(begin), static_cast<int32_t>(end - begin)};
        end = begin;
    }
    return result;
}

}  // namespace nvllm
