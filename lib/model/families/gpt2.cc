// GPT-2 (Radford et al. 2019). Matrices are stored [in, out] (Conv1D) and are turned at load. Names
// come with or without "transformer." in front, as the whole model or its body was saved.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kernels/error.h"
#include "lib/model/families/decoder.h"
#include "lib/model/families/family.h"
#include "lib/model/weights/module_sharding.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kGpt2Configs = {
    {{.model_type = "gpt2",
      .max_positions = 1024,
      .epsilon = 1e-5,
      .activation = "gelu_new",
      .activation_key = "activation_function",
      .epsilon_key = "layer_norm_epsilon",
      .intermediate_per_hidden = 4,
      .mlp_matrices = 2,
      .tied = true,
      .attention_bias = true,
      .output_bias_key = nullptr,
      .mlp_bias = true,
      .learned_positions = true,
      .own_keys = "scale_attn_weights scale_attn_by_inverse_layer_idx",
      .idle_keys = "n_ctx reorder_and_upcast_attn"}}};

constexpr BodyMarks kMarks = {"h.0.ln_1.weight", "wte.weight", "transformer."};

struct Gpt2Loader {
    const ModelConfig& config;
    WeightSource& source;

    static LinearSpec linear(const std::string& name, int64_t in, int64_t out, ShardAxis axis,
                             const std::vector<ShardPiece>& pieces = {}) {
        return {name, in, out, true, axis, pieces, MatrixOrder::in_out};
    }

    Norm norm(const std::string& name) const {
        return load_layer_norm(source, name, config.hidden_size, config.norm_epsilon);
    }

    Attention attention(const std::string& name, int64_t index) const {
        const int64_t hidden = config.hidden_size;
        const double scale =
            config.attention_scale.value_or(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
        const double divisor =
            config.attention_scale_by_layer ? static_cast<double>(index + 1) : 1.0;
        const ShardPiece of_heads(hidden, config.num_heads);
        const std::vector<LinearSpec> linears = {
            linear(name + ".c_attn", hidden, 3 * hidden, ShardAxis::output,
                   {of_heads, of_heads, of_heads}),
            linear(name + ".c_proj", hidden, hidden, ShardAxis::input)};
        const ModuleSharding cut(source, linears);
        Attention layer;
        layer.shard = cut.shard();
        layer.heads = cut.share(config.num_heads);
        layer.kv_heads = layer.heads;
        layer.head_dim = config.head_dim;
        layer.options.scale = static_cast<float>(scale / divisor);
        layer.query_key_value = load_linear(source, cut.of(linears.front()));
        layer.output = load_linear(source, cut.of(linears.back()));
        return layer;
    }

    Mlp mlp(const std::string& name) const {
        Mlp layer;
        layer.gated = false;
        layer.activation = mlp_function_named(config.activation);
        const int64_t inner = config.intermediate_size;
        const std::vector<LinearSpec> linears = {
            linear(name + ".c_fc", config.hidden_size, inner, ShardAxis::output),
            linear(name + ".c_proj", inner, config.hidden_size, ShardAxis::input)};
        const ModuleSharding cut(source, linears);
        layer.in = load_linear(source, cut.of(linears.front()));
        layer.down = load_linear(source, cut.of(linears.back()));
        return layer;
    }

    DecoderBlock block(const std::string& name, int64_t index) const {
        DecoderBlock block;
        block.attention_norm = norm(name + ".ln_1");
        block.attention = attention(name + ".attn", index);
        block.mlp_norm = norm(name + ".ln_2");
        block.mlp = mlp(name + ".mlp");
        return block;
    }
};

void check_length(const ModelConfig& config, const ModelSettings& settings) {
    if (settings.max_model_len <= config.max_positions) return;
    throw Error(ErrorKind::bad_config,
                fmt::format("a maximum length of {} was asked for, but this GPT-2 learned only {} "
                            "positions; ask for at most that",
                            settings.max_model_len, config.max_positions));
}

std::unique_ptr<Model> make(const ModelConfig& config, WeightSource& source,
                            const ModelSettings& settings) {
    check_length(config, settings);
    const Gpt2Loader loader{config, source};
    const std::string prefix = body_prefix(source, kMarks, config.hidden_size);
    const VocabularyNames names = vocabulary_names(source, config, prefix, prefix + "wte.weight");
    DecoderParts parts;
    load_embedding(source, config, names, parts);
    if (source.part().has_embedding) {
        parts.position_embedding =
            load_table(source, prefix + "wpe.weight", config.max_positions, config.hidden_size);
    }
    for (const int64_t index : blocks_of(source, config)) {
        parts.blocks.push_back(loader.block(fmt::format("{}h.{}", prefix, index), index));
    }
    parts.final_norm = loader.norm(prefix + "ln_f");
    load_head(source, config, names, parts);
    return make_decoder(config, settings, std::move(parts));
}

// Causal masks, which old exporters saved.
bool is_mask(const std::string& tensor, const ModelConfig&) {
    return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias");
}

}  // namespace

extern const FamilyRow kGpt2 = {"GPT2LMHeadModel", make, kGpt2Configs, is_mask};

}  // namespace nvllm
