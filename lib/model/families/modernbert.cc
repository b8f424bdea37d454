// ModernBERT (Warner et al. 2024): an encoder with norms before its layers, rotated queries and
// keys, windows in all but every third layer and a gated MLP. Names come with or without "model."
// in front, as the whole model or its body was saved.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "lib/model/families/decoder.h"
#include "lib/model/families/family.h"
#include "lib/model/weights/module_sharding.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kModernBertConfigs = {
    {{.model_type = "modernbert",
      .vocab_size = 50368,
      .max_positions = 8192,
      .epsilon = 1e-5,
      .theta = 160000.0,
      .activation = "gelu",
      .activation_key = "hidden_activation",
      .epsilon_key = "norm_eps",
      .tied = true,
      .windows = Windows::all_but_first_of_n,
      .window_key = "local_attention",
      .window = 128,
      .window_pattern = 3,
      .theta_key = "global_rope_theta",
      .sliding_theta = 10000.0,
      .sliding_theta_key = "local_rope_theta",
      .scales_sliding_rope = true,
      .encoder = true,
      .own_keys = "attention_bias mlp_bias norm_bias local_attention global_attn_every_n_layers "
                  "layer_types global_rope_theta local_rope_theta classifier_pooling "
                  "classifier_bias classifier_activation",
      .idle_keys = "position_embedding_type layer_norm_eps decoder_bias sparse_prediction "
                   "sparse_pred_ignore_index deterministic_flash_attn reference_compile "
                   "repad_logits_with_grad initializer_cutoff_factor embedding_dropout "
                   "mlp_dropout"}}};

constexpr BodyMarks kMarks = {"layers.0.mlp_norm.weight", "embeddings.tok_embeddings.weight",
                              "model."};

struct ModernBertLoader {
    const ModelConfig& config;
    WeightSource& source;

    Norm norm(const std::string& name) const {
        return load_norm(source, name, config.hidden_size, config.norm_epsilon,
                         {Norm::Kind::layer, config.norm_bias});
    }

    Attention attention(const std::string& name, size_t index) const {
        const int64_t hidden = config.hidden_size;
        const int64_t width = config.num_heads * config.head_dim;
        const ShardPiece of_heads(width, config.num_heads);
        const std::vector<LinearSpec> linears = {
            {name + ".Wqkv",
             hidden,
             3 * width,
             config.attention_bias,
             ShardAxis::output,
             {of_heads, of_heads, of_heads}},
            {name + ".Wo", width, hidden, config.attention_output_bias, ShardAxis::input}};
        const ModuleSharding cut(source, linears);
        Attention layer;
        layer.shard = cut.shard();
        layer.heads = cut.share(config.num_heads);
        layer.kv_heads = layer.heads;
        layer.head_dim = config.head_dim;
        layer.options.scale =
            static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
        layer.options.window = config.layer_windows[index];
        layer.options.causal = false;
        layer.query_key_value = load_linear(source, cut.of(linears.front()));
        layer.output = load_linear(source, cut.of(linears.back()));
        return layer;
    }

    Mlp mlp(const std::string& name) const {
        const int64_t inner = config.intermediate_size;
        Mlp layer;
        layer.activation = mlp_function_named(config.activation);
        const std::vector<LinearSpec> linears = {
            {name + ".Wi",
             config.hidden_size,
             2 * inner,
             config.mlp_bias,
             ShardAxis::output,
             {inner, inner}},
            {name + ".Wo", inner, config.hidden_size, config.mlp_bias, ShardAxis::input}};
        const ModuleSharding cut(source, linears);
        layer.in = load_linear(source, cut.of(linears.front()));
        layer.down = load_linear(source, cut.of(linears.back()));
        return layer;
    }

    // The first one reads embeddings, which are normalised already.
    DecoderBlock block(const std::string& name, size_t index) const {
        DecoderBlock block;
        if (index > 0) block.attention_norm = norm(name + ".attn_norm");
        block.attention = attention(name + ".attn", index);
        block.mlp_norm = norm(name + ".mlp_norm");
        block.mlp = mlp(name + ".mlp");
        block.rotary = config.is_windowed(index) ? 1 : 0;
        return block;
    }

    Rotary rotary(const RopeConfig& rope, const ModelSettings& settings) const {
        return {source, rope_frequencies(rope, config.head_dim, config.max_positions,
                                         settings.max_model_len)};
    }

    ClassifierHead classifier() const {
        const int64_t hidden = config.hidden_size;
        ClassifierHead head;
        head.num_classes = static_cast<int64_t>(config.labels.size());
        head.dense = load_head_linear(source, "head.dense", hidden, hidden, config.classifier_bias);
        if (config.classifier_activation != "tanh") {
            head.function = mlp_function_named(config.classifier_activation);
        }
        head.norm = norm("head.norm");
        head.classes = load_head_linear(source, "classifier", hidden, head.num_classes, true);
        return head;
    }

    DecoderParts parts(const ModelSettings& settings) const {
        const std::string prefix = body_prefix(source, kMarks, config.hidden_size);
        DecoderParts parts;
        parts.token_embedding = load_table(source, prefix + "embeddings.tok_embeddings.weight",
                                           config.vocab_size, config.hidden_size);
        parts.embedding_norm = norm(prefix + "embeddings.norm");
        parts.rotaries.push_back(rotary(config.rope, settings));
        parts.rotaries.push_back(rotary(config.sliding_rope.value_or(config.rope), settings));
        for (const int64_t index : blocks_of(source, config)) {
            parts.blocks.push_back(
                block(fmt::format("{}layers.{}", prefix, index), static_cast<size_t>(index)));
        }
        parts.final_norm = norm(prefix + "final_norm");
        if (!config.labels.empty()) parts.classifier = classifier();
        return parts;
    }
};

std::unique_ptr<Model> make(const ModelConfig& config, WeightSource& source,
                            const ModelSettings& settings) {
    return make_decoder(config, settings, ModernBertLoader{config, source}.parts(settings));
}

// Heads that predict words or classes.
bool is_of_other_task(const std::string& name, const ModelConfig&) {
    return name.starts_with("head.") || name.starts_with("decoder.") ||
           name.starts_with("classifier.");
}

}  // namespace

extern const FamilyRow kModernBert = {"ModernBertModel", make, kModernBertConfigs,
                                      is_of_other_task};

}  // namespace nvllm
