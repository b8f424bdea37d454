// What a checkpoint calls the parts of a model: with which names in front, as the whole model, its
// body or a model around it was saved.
#pragma once

#include <string>
#include <string_view>

#include "lib/checkpoint/model_config.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// Names of a body that tell it from others, as the body itself calls them.
struct BodyMarks {
    std::string_view norm;   // [hidden], of its first block: "layers.0.input_layernorm.weight"
    std::string_view table;  // its embedding: "embed_tokens.weight"
    std::string_view usual;  // what mostly stands in front: "model."
};

// What stands in front of a body's names; `marks.usual` where there is no such norm.
std::string body_prefix(const WeightSource& source, const BodyMarks& marks, int64_t hidden);

// Embeddings and the output matrix of a decoder.
struct VocabularyNames {
    std::string embedding;  // a tensor
    std::string head;       // a linear
    bool is_tied = false;   // the head's matrix is the embedding
};

// A head that is stored is used, whatever the config says of tying, unless it equals the embedding;
// where they are tied, the one that is stored stands for both. `embedding`: with the prefix.
VocabularyNames vocabulary_names(const WeightSource& source, const ModelConfig& config,
                                 const std::string& prefix, const std::string& embedding);

}  // namespace nvllm
