// The body that all decoder families share: embedding, blocks, final norm, head. A family fills in
// the parts.
#pragma once

#include <memory>
#include <vector>

#include "lib/model/families/model_settings.h"
#include "lib/model/families/stored_names.h"
#include "lib/model/layers/classifier_head.h"
#include "lib/model/layers/decoder_block.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/model.h"

namespace nvllm {

struct DecoderParts {
    Tensor token_embedding;         // [vocab, hidden], or this rank's rows of it
    int32_t embedding_target = -1;  // of LoraTargets; -1: adapters do not change it
    Shard vocabulary;               // of the rows of the embedding
    float embedding_scale = 1.0f;
    std::optional<Norm> embedding_norm;
    Tensor position_embedding;     // [max_positions, hidden]; empty where positions are rotary
    std::vector<Rotary> rotaries;  // blocks name theirs
    std::optional<LayerInputs> layer_inputs;  // which the blocks add
    std::vector<DecoderBlock> blocks;
    Norm final_norm;
    LinearWeight head;  // [hidden] → [vocab], or this rank's; empty: the body alone was saved
    Shard head_shard;   // of what the head gives
    bool tied = false;  // the head's weight is the embedding
    float logit_scale = 1.0f;
    float logit_soft_cap = 0.0f;  // 0: none
    ClassifierHead classifier;    // of a sequence classification model
};

// The cache groups of blocks: one for each geometry there is, in order of first use but for that
// states come last: what reads the first group of a model expects blocks. `first`: the number of
// the first block.
std::vector<CacheLayout> groups_of(const std::vector<DecoderBlock>& blocks, int32_t first = 0);

// A model of these parts. Cache groups follow from the blocks' windows.
std::unique_ptr<Model> make_decoder(const ModelConfig& config, const ModelSettings& settings,
                                    DecoderParts parts);

// parts.token_embedding, where this rank looks tokens up or has a head over the same table.
void load_embedding(WeightSource& source, const ModelConfig& config, const VocabularyNames& names,
                    DecoderParts& parts);

// `parts.classifier` where the config has labels. `parts.head` over parts.token_embedding where
// they are tied, else over a weight of its own; none for a model that does not generate.
void load_head(WeightSource& source, const ModelConfig& config, const VocabularyNames& names,
               DecoderParts& parts);

// [rows, hidden] as a table to look up in: in the compute type, like any matrix; dequantized where
// it is stored quantized.
Tensor load_table(WeightSource& source, const std::string& name, int64_t rows, int64_t hidden);

}  // namespace nvllm
