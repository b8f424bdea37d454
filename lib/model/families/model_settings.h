// What a family needs to know in addition to its config and weights.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/model.h"
#include "lib/model/model_part.h"

namespace nvllm {

class WeightSource;

struct ModelSettings {
    int64_t max_model_len = 0;  // longest sequence the engine will run
    ModelPart part = {};        // that the rank has
    // Of all stages, by which plans number what they cache; empty: the model's own.
    std::vector<CacheLayout> groups = {};
};

// The numbers of the blocks that the source's part has, ascending.
std::vector<int64_t> blocks_of(const WeightSource& source, const ModelConfig& config);

// The sizes that a cost has of a config; without blocks.
ModelCost cost_of(const ModelConfig& config);
// What blocks cache of a token in the config's type; the first of them has the number `first`.
void add_cached(const std::vector<CacheLayout>& groups, int32_t first, ModelCost& cost);

// A model's cache groups in the order of settings.groups, those that it has no layer of too. Throws
// bad_data where one is not among them.
std::vector<CacheLayout> as_planned(const std::vector<CacheLayout>& own,
                                    const ModelSettings& settings);

}  // namespace nvllm
