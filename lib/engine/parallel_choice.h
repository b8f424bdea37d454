// The ranks that --tensor-parallel-size and --pipeline-parallel-size ask for, checked against the
// model before anything is loaded.
#pragma once

#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/model/loader.h"
#include "lib/parallel/parallel_sizes.h"
#include "lib/parallel/pipeline_stages.h"

namespace nvllm {

struct ParallelChoice {
    ParallelSizes sizes;
    std::vector<PipelineStage> stages;  // empty: there is one
    // Weights of a rank of each stage, before anything is read.
    std::vector<uint64_t> stage_bytes;

    bool is_alone() const { return sizes.num_ranks() == 1; }
};

// `model`: with rank 0's slice of each layer and all blocks, made with `load`. Throws bad_config
// where the model cannot be divided so.
ParallelChoice choose_parallel(const ParallelOptions& options, const ModelLoadOptions& load,
                               const ModelMetadata& model);

}  // namespace nvllm
