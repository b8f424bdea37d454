// Qwen3: every query and key head is normalised before it is rotated; head_dim is the config's own.
#include "lib/model/families/qwen3.h"

#include "lib/model/families/llama.h"

namespace nvllm {

std::unique_ptr<Model> make_qwen3(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make_llama_like(config, source, settings, {.query_key_norm = true});
}

}  // namespace nvllm
