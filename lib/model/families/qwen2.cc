// Qwen2. Its config.json does not mention the biases, so they are stated here.
#include "lib/model/families/qwen2.h"

#include "lib/model/families/llama.h"

namespace nvllm {

std::unique_ptr<Model> make_qwen2(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    ModelConfig biased = config;
    biased.attention_bias = true;
    biased.attention_output_bias = false;
    return make_llama_like(biased, source, settings, {});
}

}  // namespace nvllm
