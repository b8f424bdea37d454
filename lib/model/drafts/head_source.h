// Where a draft head's tensors come from: its own files, and those of its target.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/checkpoint/model_config.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// The weights of a directory, quantized as its config says. Throws not_found or bad_data.
std::unique_ptr<CheckpointSource> open_head_source(const std::filesystem::path& directory,
                                                   DType compute_type, ThreadPool& threads,
                                                   const ComputeDevice& device,
                                                   CheckpointUse use = CheckpointUse::values);

// A target's embedding [vocabulary, hidden] and output matrix.
struct TargetVocabulary {
    Tensor embedding;
    LinearWeight head;
};

// Throws bad_data that names a tensor.
TargetVocabulary load_target_vocabulary(WeightSource& source, const ModelConfig& target);

}  // namespace nvllm
