// Phi-3 (Microsoft 2024): q, k and v lie in one matrix, gate and up in another; longrope and
// windows are in the config.
#include "lib/model/families/phi3.h"

#include "lib/model/families/llama.h"

namespace nvllm {

std::unique_ptr<Model> make_phi3(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    LlamaTraits traits;
    traits.fused_projections = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace nvllm
