// Parts of models among the whole.
#include "lib/model/families/model_settings.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

std::vector<int64_t> blocks_of(const WeightSource& source, const ModelConfig& config) {
    std::vector<int64_t> blocks;
    for (int64_t index = 0; index < config.num_layers; ++index) {
        if (source.part().has_block(index)) blocks.push_back(index);
    }
    return blocks;
}

ModelCost cost_of(const ModelConfig& config) {
    ModelCost cost;
    cost.hidden_size = config.hidden_size;
    cost.vocab_size = config.vocab_size;
    cost.num_experts = config.num_experts;
    cost.experts_per_token = config.experts_per_token;
    cost.bytes_per_weight = static_cast<double>(dtype_bytes(config.dtype));
    cost.kv_type_bytes = static_cast<int32_t>(dtype_bytes(config.dtype));
    return cost;
}

void add_cached(const std::vector<CacheLayout>& groups, int32_t first, ModelCost& cost) {
    const auto blocks = static_cast<int32_t>(cost.blocks.size());
    for (const CacheLayout& group : groups) {
        if (group.is_state()) continue;
        for (const int32_t layer : group.layers) {
            if (layer - first >= blocks) continue;
            cost.blocks[static_cast<size_t>(layer - first)].kv_bytes_per_token +=
                group.vectors() * group.head_dim * cost.kv_type_bytes;
        }
    }
}

std::vector<CacheLayout> as_planned(const std::vector<CacheLayout>& own,
                                    const ModelSettings& settings) {
    if (settings.groups.empty()) return own;
    std::vector<CacheLayout> groups = settings.groups;
    for (CacheLayout& group : groups) group.layers.clear();
    for (const CacheLayout& group : own) {
        if (group.layers.empty()) continue;
        const auto planned = std::ranges::find_if(
            groups, [&](const CacheLayout& other) { return other.same_geometry(group); });
        if (planned == groups.end()) {
            throw Error(ErrorKind::bad_data,
                        "a stage caches what the model that was planned for does not: do all "
                        "ranks read the same files?");
        }
        planned->layers = group.layers;
    }
    return groups;
}

}  // namespace nvllm
