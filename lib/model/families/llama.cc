// Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped queries, gated MLP; no biases
// unless the config says so. Names are the checkpoint's own.
#include "lib/model/families/llama.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace nvllm {
namespace {

struct LlamaLoader {
    const ModelConfig& config;
    WeightSource& source;
    const LlamaTraits& traits;

    Attention attention(const std::string& name, int64_t window) const {
        const int64_t hidden = config.hidden_size;
        const int64_t kv_width = config.num_kv_heads * config.head_dim;
        const int64_t width = config.num_heads * config.head_dim;
        Attention layer;
        layer.heads = config.num_heads;
        layer.kv_heads = config.num_kv_heads;
        layer.head_dim = config.head_dim;
        layer.options.scale = static_cast<float>(
            config.attention_scale.value_or(1.0 / std::sqrt(static_cast<double>(config.head_dim))));
        layer.options.window = window;
        layer.options.soft_cap = static_cast<float>(config.attention_soft_cap);
        const std::array<LinearName, 3> projections = {{
            {name + ".q_proj", hidden, width, config.attention_bias},
            {name + ".k_proj", hidden, kv_width, config.attention_bias},
            {name + ".v_proj", hidden, kv_width, config.attention_bias},
        }};
        layer.query_key_value = load_linear(source, projections);
        layer.output =
            load_linear(source, {name + ".o_proj", width, hidden, config.attention_output_bias});
        if (traits.query_key_norm) {
            layer.query_norm = rms_norm(name + ".q_norm", config.head_dim);
            layer.key_norm = rms_norm(name + ".k_norm", config.head_dim);
        }
        return layer;
    }

    Mlp mlp(const std::string& name) const {
        const int64_t hidden = config.hidden_size;
        const int64_t inner = config.intermediate_size;
        const std::array<LinearName, 2> gate_up = {{
            {name + ".gate_proj", hidden, inner, config.mlp_bias},
            {name + ".up_proj", hidden, inner, config.mlp_bias},
        }};
        Mlp layer;
        layer.activation = activation_named(config.activation);
        layer.in = load_linear(source, gate_up);
        layer.down = load_linear(source, {name + ".down_proj", inner, hidden, config.mlp_bias});
        return layer;
    }

    DecoderBlock block(int64_t index) const {
        const std::string name = fmt::format("model.layers.{}", index);
        DecoderBlock block;
        block.attention_norm = rms_norm(name + ".input_layernorm", config.hidden_size);
        block.attention =
            attention(name + ".self_attn", config.layer_windows[static_cast<size_t>(index)]);
        block.mlp_norm = rms_norm(name + ".post_attention_layernorm", config.hidden_size);
        block.mlp = mlp(name + ".mlp");
        block.rotary = 0;
        return block;
    }

    Norm rms_norm(const std::string& name, int64_t size) const {
        return load_rms_norm(source, name, size, config.norm_epsilon);
    }
};

}  // namespace

std::unique_ptr<Model> make_llama_like(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings, const LlamaTraits& traits) {
    const LlamaLoader loader{config, source, traits};
    DecoderParts parts;
    parts.token_embedding =
        load_table(source, "model.embed_tokens.weight", config.vocab_size, config.hidden_size);
    parts.rotaries.emplace_back(rope_frequencies(config.rope, config.head_dim, config.max_positions,
                                                 settings.max_model_len));
    for (int64_t index = 0; index < config.num_layers; ++index) {
        parts.blocks.push_back(loader.block(index));
    }
    parts.final_norm = loader.rms_norm("model.norm", config.hidden_size);
    load_head(source, config, "lm_head", parts);
    return make_decoder(config, settings, std::move(parts));
}

std::unique_ptr<Model> make_llama(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make_llama_like(config, source, settings, {});
}

}  // namespace nvllm
