// Names of a block's tensors, and where the channels that its linears read come from.
#include "lib/model/families/llama_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "lib/model/families/latent_loader.h"
#include "lib/model/families/llama_mlps.h"
#include "lib/model/families/llama_states.h"
#include "lib/model/weights/module_sharding.h"

namespace nvllm {
namespace {

struct LlamaLoader {
    const ModelConfig& config;
    WeightSource& source;
    const LlamaTraits& traits;

    LlamaStates states() const { return {config, source, traits}; }
    LlamaMlps mlps() const { return {config, source, traits}; }

    Norm norm(const std::string& name, int64_t size) const {
        return load_norm(source, name, size, config.norm_epsilon, traits.norm_form);
    }
    // One of a block; empty where it has no name.
    std::optional<Norm> norm_of(const std::string& block, const char* name) const {
        if (name == nullptr) return std::nullopt;
        return norm(fmt::format("{}.{}", block, name), config.hidden_size);
    }
    Norm query_key_norm(const std::string& attention, const char* name, int64_t size) const {
        return load_rms_norm(source, fmt::format("{}.{}", attention, name), size,
                             config.norm_epsilon, traits.norm_form.weight_offset);
    }

    // What gives queries, keys, values and gates, in the order that Attention has them in.
    std::vector<LinearSpec> projections(const std::string& name, int64_t in, size_t index) const {
        const LayerHeads heads = config.heads_of(index);
        const int64_t of_queries = config.num_heads * heads.head_dim;
        const bool has_gates = traits.output_gate == OutputGate::behind_queries;
        const ShardPiece queries(has_gates ? 2 * of_queries : of_queries, config.num_heads);
        const ShardPiece keys(heads.kv_heads * heads.head_dim, heads.kv_heads, true);
        const auto linear = [&](const std::string& full_name, std::vector<ShardPiece> pieces) {
            int64_t out = 0;
            for (const ShardPiece& piece : pieces) out += piece.size;
            return LinearSpec{full_name, in, out, config.attention_bias, ShardAxis::output, pieces};
        };
        if (traits.fused.query_key_value != nullptr) {
            return {linear(fmt::format("{}.{}", name, traits.fused.query_key_value),
                           {queries, keys, keys})};
        }
        std::vector<LinearSpec> parts = {linear(name + ".q_proj", {queries})};
        if (!config.shared_layer(index)) parts.push_back(linear(name + ".k_proj", {keys}));
        if (!config.shared_layer(index) && !values_are_keys(index)) {
            parts.push_back(linear(name + ".v_proj", {keys}));
        }
        if (traits.output_gate == OutputGate::behind_values) {
            parts.push_back(linear(gate_name(name), {{of_queries, config.num_heads}}));
            parts.back().bias = false;
        }
        return parts;
    }

    LinearSpec output_projection(const std::string& name, size_t index) const {
        return {fmt::format("{}.{}", name, traits.attention_output),
                config.num_heads * config.heads_of(index).head_dim, config.hidden_size,
                config.attention_output_bias, ShardAxis::input};
    }

    // Of all linears, also where keys and values are another layer's: those are cut alike.
    ModuleSharding cut_of(std::vector<LinearSpec> linears, const LinearSpec& output,
                          size_t index) const {
        const LayerHeads heads = config.heads_of(index);
        LinearSpec of_keys = linears.front();
        of_keys.out = heads.kv_heads * heads.head_dim;
        of_keys.pieces = {{of_keys.out, heads.kv_heads, true}};
        linears.push_back(of_keys);
        linears.push_back(output);
        return {source, linears};
    }

    std::string gate_name(const std::string& attention) const {
        return fmt::format("{}.{}", attention, traits.attention_gate);
    }

    bool values_are_keys(size_t index) const {
        return config.values_are_keys && !config.is_windowed(index);
    }

    // Their tensors may be there and are not used.
    void pass_over_shared(const std::string& name) const {
        for (const char* const part : {".k_proj", ".v_proj", ".k_norm", ".v_norm"}) {
            source.pass_over(name + part);
        }
    }

    Attention attention(const std::string& name, int64_t in, size_t index) const {
        const LayerHeads heads = config.heads_of(index);
        const double plain_scale = 1.0 / std::sqrt(static_cast<double>(heads.head_dim));
        const std::vector<LinearSpec> inputs = projections(name, in, index);
        const LinearSpec output = output_projection(name, index);
        const ModuleSharding cut = cut_of(inputs, output, index);
        Attention layer;
        layer.shard = cut.shard();
        layer.heads = cut.share(config.num_heads);
        layer.kv_heads = cut.shared_heads(heads.kv_heads);
        layer.head_dim = heads.head_dim;
        layer.kv_layer = config.shared_layer(index);
        if (layer.kv_layer) pass_over_shared(name);
        layer.values_are_keys = !layer.kv_layer && values_are_keys(index);
        layer.output_gate = traits.output_gate;
        layer.options.scale = static_cast<float>(config.attention_scale.value_or(plain_scale));
        layer.options.window = config.layer_windows[index];
        layer.options.causal = !config.encoder;
        if (config.attention_chunk > 0 && config.chunked_layers[index]) {
            layer.options.chunk = config.attention_chunk;
        }
        layer.options.soft_cap = static_cast<float>(config.attention_soft_cap);
        layer.in_scale = static_cast<float>(config.attention_in_scale);
        layer.out_scale = static_cast<float>(config.attention_out_scale);
        layer.query_key_value = load_linear(source, cut.of(inputs));
        layer.output = load_linear(source, cut.of(output));
        if (traits.has_value_norm && !layer.kv_layer) {
            layer.value_norm = plain_norm(source, heads.head_dim, config.norm_epsilon);
        }
        layer.rope_pairs = traits.rope_pairs;
        if (traits.has_sinks) {
            layer.sinks = source.placed(
                as_float32(source, source.read_slice(name + ".sinks", {layer.heads},
                                                     WeightRole::bias, {layer.shard})));
        }
        if (traits.has_plain_query_key_norm) {
            add_plain_norms(index, layer);
        } else if (traits.query_key_norm) {
            const bool is_whole = *traits.query_key_norm == QueryKeyNorm::projections;
            const auto size = [&](int64_t count) {
                return is_whole ? count * heads.head_dim : heads.head_dim;
            };
            layer.norm_place = *traits.query_key_norm;
            layer.query_norm = query_key_norm(name, traits.query_norm, size(config.num_heads));
            if (!layer.kv_layer) {
                layer.key_norm = query_key_norm(name, traits.key_norm, size(heads.kv_heads));
            }
        }
        layer.key_scale = cache_scale(name, "k");
        layer.value_scale = cache_scale(name, "v");
        return layer;
    }

    void add_plain_norms(size_t index, Attention& layer) const {
        if (!config.query_key_norm || !config.rotates(static_cast<int64_t>(index))) return;
        layer.norm_place = *traits.query_key_norm;
        layer.query_norm = plain_norm(source, layer.head_dim, config.norm_epsilon);
        layer.key_norm = plain_norm(source, layer.head_dim, config.norm_epsilon);
    }

    // Of float8 keys or values; ModelOpt has it below the projection.
    float cache_scale(const std::string& attention, const char* part) const {
        const float below =
            load_scalar(source, fmt::format("{0}.{1}_proj.{1}_scale", attention, part), 1.0f);
        return load_scalar(source, fmt::format("{}.{}_scale", attention, part), below);
    }

    // Of a norm whose channels can be scaled, into `readers`.
    void add_norm_flow(const std::string& block, const char* name, std::vector<std::string> readers,
                       std::vector<ChannelFlow>& flows) const {
        if (name == nullptr || traits.norm_form.kind != Norm::Kind::rms) return;
        ChannelFlow flow;
        flow.writer = fmt::format("{}.{}", block, name);
        flow.readers = std::move(readers);
        flow.channels = config.hidden_size;
        flow.weight_offset = traits.norm_form.weight_offset;
        flows.push_back(std::move(flow));
    }

    std::vector<std::string> attention_readers(const std::string& name, size_t index) const {
        if (config.latent_attention) return latent_attention_readers(config, name);
        if (traits.fused.query_key_value != nullptr) {
            return {fmt::format("{}.{}", name, traits.fused.query_key_value)};
        }
        if (config.shared_layer(index)) return {name + ".q_proj"};
        if (values_are_keys(index)) return {name + ".q_proj", name + ".k_proj"};
        std::vector<std::string> readers = {name + ".q_proj", name + ".k_proj", name + ".v_proj"};
        if (traits.output_gate == OutputGate::behind_values) readers.push_back(gate_name(name));
        return readers;
    }

    // Attention is linear in its values.
    ChannelFlow value_flow(const std::string& name) const {
        const int64_t width = config.num_heads * config.head_dim;
        const int64_t kv_width = config.num_kv_heads * config.head_dim;
        const bool is_fused = traits.fused.query_key_value != nullptr;
        ChannelFlow flow = flow_from_linear(
            is_fused ? fmt::format("{}.{}", name, traits.fused.query_key_value) : name + ".v_proj",
            is_fused ? width + kv_width : 0, kv_width,
            fmt::format("{}.{}", name, traits.attention_output));
        flow.columns_per_channel = width / kv_width;
        return flow;
    }

    std::string attention_name(const std::string& block) const {
        return fmt::format("{}.{}", block, traits.attention);
    }

    // Those of the state and of attention.
    std::vector<std::string> first_readers(const std::string& block, size_t index) const {
        std::vector<std::string> readers;
        if (config.is_linear(index)) readers = states().readers(block);
        if (!config.has_attention(index)) return readers;
        for (std::string& reader : attention_readers(attention_name(block), index)) {
            readers.push_back(std::move(reader));
        }
        return readers;
    }

    // In the order of computation.
    std::vector<ChannelFlow> flows(const std::string& block, size_t index) const {
        std::vector<std::string> readers = first_readers(block, index);
        std::vector<std::string> of_mlp;
        if (config.has_mlp(index)) of_mlp = mlps().readers(block, index);
        if (traits.is_parallel) readers.insert(readers.end(), of_mlp.begin(), of_mlp.end());
        std::vector<ChannelFlow> flows;
        if (!readers.empty()) {
            add_norm_flow(block, traits.norms.before_attention, std::move(readers), flows);
        }
        const bool is_plain =
            config.has_attention(index) && !config.latent_attention && !traits.has_value_norm;
        if (is_plain) flows.push_back(value_flow(attention_name(block)));
        if (!config.has_mlp(index)) return flows;
        add_norm_flow(block, traits.norms.before_mlp, std::move(of_mlp), flows);
        for (ChannelFlow& flow : mlps().flows(block, index)) flows.push_back(std::move(flow));
        return flows;
    }

    // Attention, what stands for it or beside it, and the norm behind.
    void load_attention(const std::string& name, size_t index, int64_t in,
                        DecoderBlock& block) const {
        const bool attends = config.has_attention(index);
        block.has_attention = attends || config.is_linear(index);
        if (!block.has_attention) return;
        if (config.is_linear(index)) block.state_layer = states().load(name, in);
        if (config.is_linear(index) && attends) {
            block.state_index =
                static_cast<int32_t>(config.num_layers) + static_cast<int32_t>(index);
        }
        if (attends && config.latent_attention) {
            block.latent_attention =
                load_latent_attention(config, source, attention_name(name), in);
        } else if (attends) {
            block.attention = attention(attention_name(name), in, index);
        }
        block.after_attention_norm = norm_of(name, traits.norms.after_attention);
    }

    // All but the norm before the attention and the flows.
    DecoderBlock block_behind(const std::string& name, size_t index, int64_t in) const {
        DecoderBlock block;
        load_attention(name, index, in, block);
        block.has_mlp = config.has_mlp(index);
        if (block.has_mlp) {
            block.mlp_norm = norm_of(name, traits.norms.before_mlp);
            block.mlp = mlps().load(name, index);
        }
        if (config.experts_beside_mlp) block.experts_beside = experts_beside(name);
        block.after_mlp_norm = norm_of(name, traits.norms.after_mlp);
        block.is_parallel = traits.is_parallel;
        block.residual_scale = static_cast<float>(config.residual_scale);
        if (config.has_attention(index)) block.rotary = rotary_of(index);
        if (config.layer_input_size > 0) block.layer_input = layer_input(name);
        if (traits.has_layer_scale) {
            block.out_scale = number(name + ".layer_scalar", 1.0f);
        }
        return block;
    }

    // As rotaries() has them.
    std::optional<size_t> rotary_of(size_t index) const {
        if (config.rotates(static_cast<int64_t>(index))) {
            return config.is_windowed(index) && config.sliding_rope ? 1 : 0;
        }
        if (config.plain_query_beta == 0.0) return std::nullopt;
        return config.sliding_rope ? 2 : 1;
    }

    // Of any sign.
    float number(const std::string& name, float absent) const {
        if (source.keeps_files() && !source.has(name)) return absent;
        const Tensor stored = as_float32(source, source.read(name, {1}, WeightRole::bias));
        return source.has_values() ? *stored.view().as<float>() : absent;
    }

    ExpertsBeside experts_beside(const std::string& name) const {
        ExpertsBeside beside{*norm_of(name, "post_feedforward_layernorm_1"), mlps().experts(name),
                             *norm_of(name, "post_feedforward_layernorm_2")};
        beside.experts.input_norm = norm_of(name, "pre_feedforward_layernorm_2");
        return beside;
    }

    LayerInput layer_input(const std::string& name) const {
        const int64_t hidden = config.hidden_size;
        const int64_t size = config.layer_input_size;
        LayerInput input;
        input.gate = load_linear(source, {name + ".per_layer_input_gate", hidden, size, false});
        input.activation = mlp_function_named(config.activation);
        input.out = load_linear(source, {name + ".per_layer_projection", size, hidden, false});
        input.norm = norm(name + ".post_per_layer_input_norm", hidden);
        return input;
    }

    DecoderBlock block(const std::string& name, size_t index) const {
        DecoderBlock block = block_behind(name, index, config.hidden_size);
        if (block.has_attention) {
            block.attention_norm = norm_of(name, traits.norms.before_attention);
        }
        block.flows = flows(name, index);
        return block;
    }

    std::vector<Rotary> rotaries(const ModelSettings& settings) const {
        std::vector<Rotary> rotaries;
        if (config.head_dim == 0) return rotaries;  // no layer attends
        rotaries.emplace_back(
            source, rope_frequencies(config.rope, config.full_head_dim(), config.max_positions,
                                     settings.max_model_len));
        if (config.sliding_rope) {
            rotaries.emplace_back(source,
                                  rope_frequencies(*config.sliding_rope, config.head_dim,
                                                   config.max_positions, settings.max_model_len));
        }
        if (config.plain_query_beta == 0.0) return rotaries;
        RopeFrequencies none;
        none.query_beta = static_cast<float>(config.plain_query_beta);
        none.original_positions = config.plain_query_positions;
        none.query_offset = 1;
        rotaries.emplace_back(source, none);
        return rotaries;
    }
};

}  // namespace

DecoderBlock LlamaBlocks::block(const std::string& name, size_t index) const {
    return LlamaLoader{config_, source_, traits_}.block(name, index);
}

DecoderBlock LlamaBlocks::block_behind(const std::string& name, size_t index, int64_t in) const {
    return LlamaLoader{config_, source_, traits_}.block_behind(name, index, in);
}

Norm LlamaBlocks::norm(const std::string& name, int64_t size) const {
    return LlamaLoader{config_, source_, traits_}.norm(name, size);
}

std::vector<Rotary> LlamaBlocks::rotaries(const ModelSettings& settings) const {
    return LlamaLoader{config_, source_, traits_}.rotaries(settings);
}

}  // namespace nvllm
