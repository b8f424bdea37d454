// What one rank has of a model: a slice of each layer, and the blocks of its stage.
#pragma once

#include <cstdint>

#include "lib/model/weights/shard.h"

namespace nvllm {

struct ModelPart {
    // Of layers that are shared out among the ranks of the tensor group.
    Shard tensor;
    // Of the experts of a layer, each of which is one rank's; whole: they are cut like all layers.
    Shard experts;
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
