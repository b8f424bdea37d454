// Headers are read once for each number of ranks that share out layers.
#include "lib/engine/topology.h"

#include <algorithm>
#include <optional>

#include "lib/engine/engine_start.h"
#include "lib/engine/parallel_choice.h"

namespace nvllm {
namespace {

constexpr double kUsableMemory = 0.9;

int64_t divided(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

EngineConfig divided_config(EngineConfig config, int32_t tensor, int32_t pipeline) {
    config.compute.device = "cpu";
    config.compute.parallel.tensor = tensor;
    config.compute.parallel.pipeline = pipeline;
    return config;
}

// Empty: the model has too few layers for so many stages.
std::optional<EngineMetadata> metadata_if_possible(const EngineConfig& config) {
    try {
        return engine_metadata(config);
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::bad_config || config.compute.parallel.pipeline == 1) throw;
        return std::nullopt;
    }
}

Split make_split(const EngineMetadata& metadata, const TopologyRequest& request, int32_t replicas) {
    Split split;
    split.sizes = metadata.parallel.sizes;
    split.stages = metadata.parallel.stages;
    split.replicas = replicas;
    // Sequences are shared out among replicas, and in each among the groups that take turns.
    split.load = request.load;
    split.load.sequences =
        divided(request.load.sequences, int64_t{replicas} * split.sizes.pipeline);
    ModelCost model = metadata.model.model->cost();
    if (metadata.model.model->num_spread_layers() > 0) {
        split.expert_ranks = metadata.options.part.experts.ranks;
        model.expert_ranks = split.expert_ranks;
        model.expert_replicas = metadata.shares_experts ? replicas : 1;
    }
    split.cost = step_cost(model, split.sizes, split.stages, request.machine, split.load);
    split.memory_bytes = split.cost.weight_bytes + split.cost.kv_bytes;
    split.fits = static_cast<double>(split.memory_bytes) <=
                 kUsableMemory * static_cast<double>(request.machine.memory_bytes);
    split.num_replicated = metadata.model.replicated_modules.size();
    return split;
}

// With experts spread over the ranks of a tensor group, or, where there is one stage, over those of
// all replicas: steps of replicas that share experts do not overlap in several.
void add_spread_experts(const EngineConfig& config, const TopologyRequest& request,
                        int32_t replicas, std::vector<Split>& splits) {
    EngineConfig spread = config;
    spread.compute.parallel.experts = true;
    for (const int32_t sharing : {replicas, 1}) {
        if (sharing > 1 && config.compute.parallel.pipeline > 1) continue;
        if (sharing * config.compute.parallel.tensor == 1) continue;
        spread.compute.parallel.data = sharing;
        const std::optional<EngineMetadata> metadata = metadata_if_possible(spread);
        if (!metadata || metadata->model.model->num_spread_layers() == 0) continue;
        if (sharing > 1 && !metadata->shares_experts) continue;
        splits.push_back(make_split(*metadata, request, replicas));
        if (replicas == 1) return;
    }
}

}  // namespace

std::vector<Split> possible_splits(const EngineConfig& config, const TopologyRequest& request) {
    std::vector<Split> splits;
    for (int32_t tensor = 1; tensor <= request.devices; tensor *= 2) {
        for (int32_t pipeline = 1; tensor * pipeline <= request.devices; pipeline *= 2) {
            if (request.devices % (tensor * pipeline) != 0) continue;
            const EngineConfig divided = divided_config(config, tensor, pipeline);
            const std::optional<EngineMetadata> metadata = metadata_if_possible(divided);
            if (!metadata) break;  // nor into more stages
            const int32_t replicas = request.devices / (tensor * pipeline);
            splits.push_back(make_split(*metadata, request, replicas));
            if (metadata->model.config.num_experts > 0) {
                add_spread_experts(divided, request, replicas, splits);
            }
        }
    }
    std::ranges::stable_sort(splits, [](const Split& a, const Split& b) {
        if (a.fits != b.fits) return a.fits;
        return a.tokens_per_s() > b.tokens_per_s();
    });
    return splits;
}

}  // namespace nvllm
