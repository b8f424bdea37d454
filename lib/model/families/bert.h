// BERT and its descendants: encoders with learned positions, norms behind their layers and a bias
// everywhere.
#pragma once

#include "lib/model/families/encoder.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// BERT; RoBERTa and XLM-RoBERTa, which count positions from the padding token's on, as the config
// says.
std::unique_ptr<Model> make_bert(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings);

std::unique_ptr<Model> make_distilbert(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings);

// What a checkpoint of such a model may hold for other tasks than embedding: its pooler, and heads
// that predict words or classes.
bool is_bert_task_tensor(const std::string& name);

}  // namespace nvllm
