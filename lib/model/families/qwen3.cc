// Qwen3 and Qwen3-MoE: every query and key head is normalised before it is rotated; head_dim is the
// config's own.
#include "lib/model/families/qwen3.h"

#include "lib/model/families/llama.h"

namespace nvllm {

std::unique_ptr<Model> make_qwen3(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace nvllm
