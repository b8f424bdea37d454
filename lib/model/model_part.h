// What one rank has of a model: a slice of each layer, and the blocks of its stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/weights/shard.h"

namespace nvllm {

// The experts of one block's layer, slot by slot of all ranks (MoeMlp::Share).
struct SlotsOfBlock {
    std::string block;  // "model.layers.3"
    std::vector<int32_t> experts;

    bool operator==(const SlotsOfBlock&) const = default;
};

// What is the same for each rank.
struct ExpertOptions {
    // Of experts that are spread over ranks, where they are not in their order or some are on
    // several ranks.
    std::vector<SlotsOfBlock> slots = {};
    double capacity_factor = 0.0;  // MoeMlp::capacity_factor
    bool are_counted = false;      // the host sees all choices, Model::expert_counts()

    bool operator==(const ExpertOptions&) const = default;
};

struct ModelPart {
    // Of layers that are shared out among the ranks of the tensor group.
    Shard tensor;
    // Of the experts of a layer, each of which is one rank's; whole: they are cut like all layers.
    Shard experts;
    ExpertOptions expert_options = {};
    // Of a pipeline's stage; num_blocks 0: all blocks.
    int32_t first_block = 0;
    int32_t num_blocks = 0;
    bool has_embedding = true;  // the first stage
    bool has_head = true;       // the last stage

    bool has_block(int64_t index) const {
        return num_blocks == 0 || (index >= first_block && index < first_block + num_blocks);
    }
    bool is_whole() const { return tensor.is_whole() && experts.is_whole() && num_blocks == 0; }
    bool operator==(const ModelPart&) const = default;
};

}  // namespace nvllm
