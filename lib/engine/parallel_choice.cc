// Stages by the bytes of weights that a step reads in them.
#include "lib/engine/parallel_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Layers that read the keys and values of another one stay in its stage.
std::vector<bool> possible_borders(const ModelConfig& config, int64_t blocks) {
    std::vector<bool> may_end(static_cast<size_t>(blocks), true);
    for (int64_t index = 0; index < blocks; ++index) {
        const std::optional<int32_t> source = config.shared_layer(static_cast<size_t>(index));
        if (!source) continue;
        for (int64_t block = *source; block < index; ++block) {
            may_end[static_cast<size_t>(block)] = false;
        }
    }
    return may_end;
}

std::vector<PipelineStage> stages_of(const ModelMetadata& metadata, int32_t num_stages) {
    const Model& model = *metadata.model;
    const int32_t blocks = model.num_blocks();
    std::vector<uint64_t> costs;
    uint64_t of_blocks = 0;
    for (int32_t block = 0; block < blocks; ++block) {
        costs.push_back(model.block_bytes(block));
        of_blocks += costs.back();
    }
    // A step reads all of the head, and few rows of the embedding. Where they are one table, it is
    // counted once.
    const ModelConfig& config = metadata.config;
    const uint64_t table = static_cast<uint64_t>(config.vocab_size * config.hidden_size) *
                           dtype_bytes(metadata.compute_type);
    const uint64_t rest = model.weight_bytes() - of_blocks;
    const uint64_t head = config.generates ? std::min(rest, table) : 0;
    return divide_blocks(costs, 0, head, possible_borders(config, blocks), num_stages);
}

}  // namespace

ParallelChoice choose_parallel(const ParallelOptions& options, const ModelMetadata& model) {
    ParallelChoice choice;
    choice.sizes = {options.tensor, options.pipeline};
    if (options.pipeline == 1) return choice;
    choice.stages = stages_of(model, options.pipeline);
    if (choice.stages.empty()) {
        throw Error(
            ErrorKind::bad_config,
            fmt::format("--pipeline-parallel-size {}: {} has {} layers, of which some read what "
                        "others have cached; they cannot be divided into so many stages",
                        options.pipeline, model.config.architecture, model.model->num_blocks()));
    }
    return choice;
}

}  // namespace nvllm
