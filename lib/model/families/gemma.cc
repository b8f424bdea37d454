// Gemma (Gemma Team 2024, 2025): norm weights are stored less 1, embeddings are scaled. Gemma 2
// puts a norm behind each layer too, caps logits and alternates windows; Gemma 3 normalises queries
// and keys instead of capping, and rotates windowed layers with a theta of their own. Windows, caps
// and thetas are in the config.
#include "lib/model/families/gemma.h"

#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

LlamaTraits gemma_traits() {
    LlamaTraits traits;
    traits.norm_offset = 1.0f;
    traits.scaled_embedding = true;
    return traits;
}

}  // namespace

std::unique_ptr<Model> make_gemma(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make_llama_like(config, source, settings, gemma_traits());
}

std::unique_ptr<Model> make_gemma2(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits = gemma_traits();
    traits.norms_around_layers = true;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_gemma3(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits = gemma_traits();
    traits.norms_around_layers = true;
    traits.query_key_norm = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace nvllm
