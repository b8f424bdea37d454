// Stages by the bytes of weights that a step reads in them.
#include "lib/engine/parallel_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/execute/worker_setup.h"

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
    const ModelCost cost = metadata.model->cost();
    std::vector<uint64_t> costs;
    for (const BlockCost& block : cost.blocks) costs.push_back(block.weight_bytes);
    // A step reads all of the head, and few rows of the embedding.
    return divide_blocks(costs, 0, cost.head_bytes,
                         possible_borders(metadata.config, std::ssize(costs)), num_stages);
}

uint64_t weights_of(const ModelLoadOptions& load, const ModelMetadata& model,
                    const ParallelChoice& choice, int32_t stage) {
    if (choice.stages.empty()) return model.weight_bytes;
    ModelLoadOptions options = load;
    options.part = part_of({0, choice.sizes.tensor}, choice.stages, stage);
    options.part.experts = load.part.experts;
    return model_metadata(options).weight_bytes;
}

}  // namespace

ParallelChoice choose_parallel(const ParallelOptions& options, const ModelLoadOptions& load,
                               const ModelMetadata& model) {
    ParallelChoice choice;
    choice.sizes = {options.tensor, options.pipeline,
                    options.experts && options.tensor * options.data > 1};
    if (options.pipeline > 1) {
        choice.stages = stages_of(model, options.pipeline);
        if (choice.stages.empty()) {
            throw Error(
                ErrorKind::bad_config,
                fmt::format(
                    "--pipeline-parallel-size {}: {} has {} layers, of which some read what others "
                    "have cached; they cannot be divided into so many stages",
                    options.pipeline, model.config.architecture, model.model->num_blocks()));
        }
    }
    for (int32_t stage = 0; stage < options.pipeline && !choice.is_alone(); ++stage) {
        choice.stage_bytes.push_back(weights_of(load, model, choice, stage));
    }
    return choice;
}

}  // namespace nvllm
