// Stages against every division that there is.
#include "lib/parallel/pipeline_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace nvllm;

namespace {

uint64_t cost_of(const std::vector<PipelineStage>& stages, const std::vector<uint64_t>& costs,
                 uint64_t first, uint64_t last) {
    uint64_t most = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
        const auto begin = costs.begin() + stages[i].first_block;
        uint64_t cost = std::accumulate(begin, begin + stages[i].num_blocks, uint64_t{0});
        if (i == 0) cost += first;
        if (i + 1 == stages.size()) cost += last;
        most = std::max(most, cost);
    }
    return most;
}

}  // namespace

TEST_CASE("stages cost as little as the best of all divisions") {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        const size_t blocks = 1 + random() % 9;
        std::vector<uint64_t> costs;
        std::vector<bool> may_end;
        for (size_t i = 0; i < blocks; ++i) {
            costs.push_back(random() % 100);
            may_end.push_back(random() % 4 != 0);
        }
        const uint64_t first = random() % 50, last = random() % 200;
        for (int32_t num_stages = 1; num_stages <= 4; ++num_stages) {
            uint64_t best = UINT64_MAX;
            std::vector<PipelineStage> tried;
            const std::function<void(int32_t)> divide = [&](int32_t begin) {
                const auto left = static_cast<int32_t>(blocks) - begin;
                if (std::ssize(tried) + 1 == num_stages) {
                    if (left < 1) return;
                    tried.push_back({begin, left});
                    best = std::min(best, cost_of(tried, costs, first, last));
                    tried.pop_back();
                    return;
                }
                for (int32_t count = 1; count < left; ++count) {
                    if (!may_end[static_cast<size_t>(begin + count - 1)]) continue;
                    tried.push_back({begin, count});
                    divide(begin + count);
                    tried.pop_back();
                }
            };
            divide(0);
            const auto found = divide_blocks(costs, first, last, may_end, num_stages);
            CHECK(found.empty() == (best == UINT64_MAX));
            if (found.empty()) continue;
            CHECK(std::ssize(found) == num_stages);
            int32_t next = 0;
            for (const PipelineStage& stage : found) {
                CHECK(stage.first_block == next);
                CHECK(stage.num_blocks > 0);
                next += stage.num_blocks;
                if (next < static_cast<int32_t>(blocks)) {
                    CHECK(may_end[static_cast<size_t>(next - 1)]);
                }
            }
            CHECK(next == static_cast<int32_t>(blocks));
            CHECK(cost_of(found, costs, first, last) == best);
        }
    }
}
