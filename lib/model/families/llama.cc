// Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped queries, gated MLP; no biases
// unless the config says so. Names are the checkpoint's own.
#include "lib/model/families/llama.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lib/model/families/family.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kLlamaConfigs = {
    {{.model_type = "llama", .own_keys = "attention_bias mlp_bias"}}};

// The factor as the model was trained with it: in the type of the embedding.
float embedding_scale(int64_t hidden, DType type) {
    const float scale = std::sqrt(static_cast<float>(hidden));
    if (type == DType::bf16) return static_cast<float>(BFloat16(scale));
    if (type == DType::f16) return static_cast<float>(Float16(scale));
    return scale;
}

// What the first norm of a body is called.
std::string first_norm_of(const NormNames& norms) {
    const char* const name =
        norms.before_attention != nullptr ? norms.before_attention : norms.after_attention;
    return fmt::format("layers.0.{}.weight", name);
}

LayerInputs load_layer_inputs(const ModelConfig& config, WeightSource& source,
                              const std::string& prefix, const LlamaBlocks& blocks) {
    LayerInputs inputs;
    inputs.size = config.layer_input_size;
    const int64_t width = config.num_layers * inputs.size;
    inputs.table =
        load_table(source, prefix + "embed_tokens_per_layer.weight", config.vocab_size, width);
    inputs.table_scale = embedding_scale(inputs.size, source.compute_type());
    inputs.projection = load_linear(
        source, {prefix + "per_layer_model_projection", config.hidden_size, width, false});
    inputs.norm = blocks.norm(prefix + "per_layer_projection_norm", inputs.size);
    return inputs;
}

}  // namespace

std::unique_ptr<Model> make_llama_like(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings,
                                       const LlamaTraits& given_traits) {
    LlamaTraits traits = given_traits;
    const std::string first_norm = first_norm_of(traits.norms);
    const std::string table = fmt::format("{}.weight", traits.embedding);
    const BodyMarks marks = {first_norm, table, kLlamaMarks.usual};
    traits.prefix = body_prefix(source, marks, config.hidden_size);
    const VocabularyNames names =
        vocabulary_names(source, config, traits.prefix, traits.prefix + table);
    const LlamaBlocks blocks(config, source, traits);
    DecoderParts parts;
    load_embedding(source, config, names, parts);
    if (traits.scaled_embedding) {
        parts.embedding_scale = embedding_scale(config.hidden_size, source.compute_type());
    }
    if (config.embedding_scale != 1.0) {
        parts.embedding_scale = static_cast<float>(config.embedding_scale);
    }
    parts.rotaries = blocks.rotaries(settings);
    if (config.layer_input_size > 0) {
        parts.layer_inputs = load_layer_inputs(config, source, traits.prefix, blocks);
    }
    for (const int64_t index : blocks_of(source, config)) {
        parts.blocks.push_back(blocks.block(fmt::format("{}layers.{}", traits.prefix, index),
                                            static_cast<size_t>(index)));
    }
    parts.final_norm = blocks.norm(traits.prefix + traits.final_norm, config.hidden_size);
    parts.logit_scale = static_cast<float>(config.logit_scale);
    parts.logit_soft_cap = static_cast<float>(config.logit_soft_cap);
    load_head(source, config, names, parts);
    return make_decoder(config, settings, std::move(parts));
}

std::unique_ptr<Model> make_llama(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make_llama_like(config, source, settings, {});
}

extern const FamilyRow kLlama = {"LlamaForCausalLM", make_llama, kLlamaConfigs};

}  // namespace nvllm
