// Mixtral (Jiang et al. 2024). Its experts keep the names of the paper: w1 is the gate, w3 goes up,
// w2 goes down.
#include "lib/model/families/mixtral.h"

#include "lib/model/families/llama.h"

namespace nvllm {

std::unique_ptr<Model> make_mixtral(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits;
    traits.experts = {"block_sparse_moe", "w1", "w3", "w2"};
    return make_llama_like(config, source, settings, traits);
}

}  // namespace nvllm
