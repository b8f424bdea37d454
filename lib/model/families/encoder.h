// The body that all encoder families share: embeddings and their norm, then blocks that look both
// ways. A family fills in the parts. The only head there is makes classes: an encoder makes vectors
// and no text.
#pragma once

#include <memory>
#include <vector>

#include "lib/model/families/model_settings.h"
#include "lib/model/layers/classifier_head.h"
#include "lib/model/layers/encoder_block.h"
#include "lib/model/model.h"

namespace nvllm {

struct EncoderParts {
    Tensor token_embedding;       // [vocab, hidden]
    Tensor position_embedding;    // [position_offset + max_positions, hidden]
    int64_t position_offset = 0;  // row of the first position
    Tensor type_embedding;        // [types, hidden]; may be empty
    Norm embedding_norm;
    Tensor position_bias;  // that the blocks share; may be empty
    std::vector<EncoderBlock> blocks;
    ClassifierHead classifier;
};

// A model of these parts, all blocks in one cache group. A prompt is to be computed in one step.
std::unique_ptr<Model> make_encoder(const ModelConfig& config, const ModelSettings& settings,
                                    EncoderParts parts);

}  // namespace nvllm
