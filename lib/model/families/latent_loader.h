// Latent attention, loaded by its names.
#pragma once

#include <string>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/layers/latent_attention.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// `name`: "model.layers.3.self_attn"; `in`: the width of what it reads. Throws bad_data that names
// a tensor. REQUIRES: config.latent_attention.
LatentAttention load_latent_attention(const ModelConfig& config, WeightSource& source,
                                      const std::string& name, int64_t in);

// The linears that read what it reads.
std::vector<std::string> latent_attention_readers(const ModelConfig& config,
                                                  const std::string& name);

}  // namespace nvllm
