// Names of a block's tensors, and where the channels that its linears read come from.
#include "lib/model/families/llama_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr ExpertNames kPlainMlp = {"mlp", "gate_proj", "up_proj", "down_proj"};

struct LlamaLoader {
    const ModelConfig& config;
    WeightSource& source;
    const LlamaTraits& traits;

    Norm norm(const std::string& name, int64_t size) const {
        return load_rms_norm(source, name, size, config.norm_epsilon, traits.norm_offset);
    }

    LinearWeight query_key_value(const std::string& name, int64_t in) const {
        const int64_t of_queries = config.num_heads * config.head_dim;
        const int64_t width = traits.attention_gate ? 2 * of_queries : of_queries;
        const int64_t kv_width = config.num_kv_heads * config.head_dim;
        const bool bias = config.attention_bias;
        if (traits.fused.query_key_value != nullptr) {
            return load_linear(source, {fmt::format("{}.{}", name, traits.fused.query_key_value),
                                        in,
                                        width + 2 * kv_width,
                                        bias,
                                        ShardAxis::output,
                                        {width, kv_width, kv_width}});
        }
        const std::vector<LinearSpec> parts = {
            {name + ".q_proj", in, width, bias, ShardAxis::output},
            {name + ".k_proj", in, kv_width, bias, ShardAxis::output},
            {name + ".v_proj", in, kv_width, bias, ShardAxis::output}};
        return load_linear(source, parts);
    }

    Attention attention(const std::string& name, int64_t in, int64_t window) const {
        const double plain_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
        Attention layer;
        layer.heads = config.num_heads;
        layer.kv_heads = config.num_kv_heads;
        layer.head_dim = config.head_dim;
        layer.has_output_gate = traits.attention_gate;
        layer.options.scale = static_cast<float>(config.attention_scale.value_or(plain_scale));
        layer.options.window = window;
        layer.options.soft_cap = static_cast<float>(config.attention_soft_cap);
        layer.query_key_value = query_key_value(name, in);
        layer.output = load_linear(
            source, {name + ".o_proj", config.num_heads * config.head_dim, config.hidden_size,
                     config.attention_output_bias, ShardAxis::input});
        if (traits.query_key_norm) {
            layer.query_norm = norm(name + ".q_norm", config.head_dim);
            layer.key_norm = norm(name + ".k_norm", config.head_dim);
        }
        layer.key_scale = load_scalar(source, name + ".k_scale", 1.0f);
        layer.value_scale = load_scalar(source, name + ".v_scale", 1.0f);
        return layer;
    }

    GatedDeltaNet linear_attention(const std::string& name, int64_t in) const {
        const LinearAttentionConfig& given = *config.linear_attention;
        GatedDeltaNet layer;
        layer.sizes = {given.key_heads, given.value_heads, given.key_dim, given.value_dim,
                       given.conv_taps};
        const DeltaNetSizes& sizes = layer.sizes;
        layer.is_by_key_head = traits.fused.linear_attention;
        std::vector<LinearSpec> parts;
        for (const auto& [part, width] : linear_attention_inputs(sizes)) {
            parts.push_back({fmt::format("{}.{}", name, part), in, width, false});
        }
        layer.in = load_linear(source, parts);
        layer.out =
            load_linear(source, {name + ".out_proj", sizes.values(), config.hidden_size, false});
        layer.conv_weight = convolution(name + ".conv1d.weight", sizes);
        layer.a_log = float32_vector(name + ".A_log", sizes.heads);
        layer.dt_bias = float32_vector(name + ".dt_bias", sizes.heads);
        layer.activation = mlp_function_named(config.activation).function;
        layer.norm = load_rms_norm(source, name + ".norm", sizes.value_dim, config.norm_epsilon);
        return layer;
    }

    // Stored as [channels, 1, taps]; here [taps, channels].
    Tensor convolution(const std::string& name, const DeltaNetSizes& sizes) const {
        const Tensor stored =
            source.read(name, {sizes.channels(), 1, sizes.taps}, WeightRole::matrix);
        const ConstTensorView by_channel = stored.view().reshaped({sizes.channels(), sizes.taps});
        const Tensor matrix = Tensor::borrow(by_channel, std::make_shared<Tensor>(stored));
        return source.placed(transposed(source, as_float32(source, matrix)));
    }

    std::vector<std::pair<const char*, int64_t>> linear_attention_inputs(
        const DeltaNetSizes& sizes) const {
        if (traits.fused.linear_attention) {
            return {{"in_proj_qkvz", sizes.channels() + sizes.values()},
                    {"in_proj_ba", 2 * sizes.heads}};
        }
        return {{"in_proj_qkv", sizes.channels()},
                {"in_proj_z", sizes.values()},
                {"in_proj_b", sizes.heads},
                {"in_proj_a", sizes.heads}};
    }

    Tensor float32_vector(const std::string& name, int64_t size) const {
        return source.placed(as_float32(source, source.read(name, {size}, WeightRole::bias)));
    }

    Mlp gated_mlp(const std::string& name, const ExpertNames& names, int64_t inner) const {
        const int64_t hidden = config.hidden_size;
        const bool bias = config.mlp_bias;
        const std::vector<LinearSpec> gate_up = {
            {fmt::format("{}.{}", name, names.gate), hidden, inner, bias, ShardAxis::output},
            {fmt::format("{}.{}", name, names.up), hidden, inner, bias, ShardAxis::output}};
        Mlp layer;
        layer.activation = mlp_function_named(config.activation);
        if (traits.fused.gate_up != nullptr) {
            layer.in = load_linear(source, {fmt::format("{}.{}", name, traits.fused.gate_up),
                                            hidden,
                                            2 * inner,
                                            bias,
                                            ShardAxis::output,
                                            {inner, inner}});
        } else {
            layer.in = load_linear(source, gate_up);
        }
        layer.down = load_linear(source, {fmt::format("{}.{}", name, names.down), inner, hidden,
                                          bias, ShardAxis::input});
        return layer;
    }

    // Experts that are stored as one tensor for all: [experts, 2 * inner, hidden], gate before up,
    // and [experts, hidden, inner]; either may be turned.
    void name_fused_experts(const std::string& layer) const {
        const std::string in = layer + ".experts.gate_up_proj";
        const std::string down = layer + ".experts.down_proj";
        if (!source.has(in)) return;
        const int64_t hidden = config.hidden_size;
        const int64_t inner = config.expert_intermediate_size;
        const bool is_in_turned = is_turned(in, 2 * inner, hidden);
        const bool is_down_turned = is_turned(down, hidden, inner);
        for (int64_t expert = 0; expert < config.num_experts; ++expert) {
            const auto name = [&](const char* linear) {
                return fmt::format("{}.experts.{}.{}.weight", layer, expert, linear);
            };
            source.name_part(name(traits.experts.gate), {in, expert, 0, inner, is_in_turned});
            source.name_part(name(traits.experts.up), {in, expert, inner, inner, is_in_turned});
            source.name_part(name(traits.experts.down), {down, expert, 0, hidden, is_down_turned});
        }
    }

    // Whether a stack of experts' matrices is [experts, in, out] and not [experts, out, in].
    bool is_turned(const std::string& stack, int64_t out, int64_t in) const {
        if (source.hook() != nullptr) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: {} holds all experts of a layer, whose weights cannot be "
                                    "replaced one by one; start from a checkpoint that stores "
                                    "each expert by itself",
                                    source.place_of(stack), stack));
        }
        if (source.has_shape(stack, {config.num_experts, out, in})) return false;
        if (source.has_shape(stack, {config.num_experts, in, out})) return true;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {} is not [{}, {}, {}] or that turned; do the weights "
                                "belong to this config.json?",
                                source.place_of(stack), stack, config.num_experts, out, in));
    }

    MoeMlp sparse_mlp(const std::string& name) const {
        name_fused_experts(name);
        MoeMlp layer;
        layer.router =
            load_linear(source, {name + ".gate", config.hidden_size, config.num_experts, false});
        layer.experts_per_token = config.experts_per_token;
        layer.normalize_weights = config.normalize_expert_weights;
        layer.computes_all = source.hook() != nullptr;
        if (config.shared_expert_size > 0) {
            SharedExpert shared;
            shared.mlp = gated_mlp(name + ".shared_expert", kPlainMlp, config.shared_expert_size);
            shared.gate =
                load_linear(source, {name + ".shared_expert_gate", config.hidden_size, 1, false});
            layer.shared = std::move(shared);
        }
        const std::vector<ExpertLinears> experts = expert_linears(name);
        if (can_stack(source, experts)) {
            layer.stack = load_expert_stack(source, experts, mlp_function_named(config.activation));
            return layer;
        }
        for (int64_t expert = 0; expert < config.num_experts; ++expert) {
            layer.experts.push_back(gated_mlp(fmt::format("{}.experts.{}", name, expert),
                                              traits.experts, config.expert_intermediate_size));
        }
        return layer;
    }

    std::vector<ExpertLinears> expert_linears(const std::string& layer) const {
        const int64_t hidden = config.hidden_size;
        const int64_t inner = config.expert_intermediate_size;
        std::vector<ExpertLinears> experts;
        for (int64_t expert = 0; expert < config.num_experts; ++expert) {
            const std::string name = fmt::format("{}.experts.{}.", layer, expert);
            experts.push_back(
                {{name + traits.experts.gate, hidden, inner, config.mlp_bias, ShardAxis::output},
                 {name + traits.experts.up, hidden, inner, config.mlp_bias, ShardAxis::output},
                 {name + traits.experts.down, inner, hidden, config.mlp_bias, ShardAxis::input}});
        }
        return experts;
    }

    void load_mlp(const std::string& name, size_t index, DecoderBlock& block) const {
        if (config.num_experts > 0 && config.sparse_layers[index]) {
            block.mlp = sparse_mlp(fmt::format("{}.{}", name, traits.experts.layer));
        } else {
            block.mlp = gated_mlp(name + ".mlp", kPlainMlp, config.intermediate_size);
        }
    }

    ChannelFlow from_norm(const std::string& name, std::vector<std::string> readers) const {
        ChannelFlow flow;
        flow.writer = name;
        flow.readers = std::move(readers);
        flow.channels = config.hidden_size;
        flow.weight_offset = traits.norm_offset;
        return flow;
    }

    static ChannelFlow from_linear(const std::string& name, int64_t first_row, int64_t channels,
                                   const std::string& reader) {
        ChannelFlow flow;
        flow.kind = ChannelFlow::Writer::linear;
        flow.writer = name;
        flow.readers = {reader};
        flow.channels = channels;
        flow.first_row = first_row;
        return flow;
    }

    // Attention is linear in its values.
    void add_attention_flows(const std::string& block, std::vector<ChannelFlow>& flows) const {
        const std::string name = block + ".self_attn";
        const int64_t width = config.num_heads * config.head_dim;
        const int64_t kv_width = config.num_kv_heads * config.head_dim;
        if (traits.fused.query_key_value != nullptr) {
            const std::string fused = fmt::format("{}.{}", name, traits.fused.query_key_value);
            flows.push_back(from_norm(block + ".input_layernorm", {fused}));
            flows.push_back(from_linear(fused, width + kv_width, kv_width, name + ".o_proj"));
        } else {
            flows.push_back(from_norm(block + ".input_layernorm",
                                      {name + ".q_proj", name + ".k_proj", name + ".v_proj"}));
            flows.push_back(from_linear(name + ".v_proj", 0, kv_width, name + ".o_proj"));
        }
        flows.back().columns_per_channel = width / kv_width;
    }

    void add_linear_attention_flows(const std::string& block,
                                    std::vector<ChannelFlow>& flows) const {
        std::vector<std::string> readers;
        for (const auto& [part, width] : linear_attention_inputs({})) {
            readers.push_back(fmt::format("{}.linear_attn.{}", block, part));
        }
        flows.push_back(from_norm(block + ".input_layernorm", std::move(readers)));
    }

    // A gated MLP is linear in what goes up.
    void add_mlp_flows(const std::string& block, size_t index,
                       std::vector<ChannelFlow>& flows) const {
        const std::string norm = block + (traits.norms_around_layers ? ".pre_feedforward_layernorm"
                                                                     : ".post_attention_layernorm");
        if (config.num_experts > 0 && config.sparse_layers[index]) {
            const std::string layer = fmt::format("{}.{}", block, traits.experts.layer);
            std::vector<std::string> readers = {layer + ".gate"};
            std::vector<ChannelFlow> inner;
            if (config.shared_expert_size > 0) {
                const std::string shared = layer + ".shared_expert";
                readers.insert(readers.end(),
                               {shared + ".gate_proj", shared + ".up_proj", shared + "_gate"});
                inner.push_back(from_linear(shared + ".up_proj", 0, config.shared_expert_size,
                                            shared + ".down_proj"));
            }
            for (const ExpertLinears& expert : expert_linears(layer)) {
                readers.insert(readers.end(), {expert.gate.name, expert.up.name});
                inner.push_back(from_linear(expert.up.name, 0, expert.up.out, expert.down.name));
            }
            flows.push_back(from_norm(norm, std::move(readers)));
            flows.insert(flows.end(), inner.begin(), inner.end());
        } else if (traits.fused.gate_up != nullptr) {
            const int64_t inner = config.intermediate_size;
            const std::string fused = fmt::format("{}.mlp.{}", block, traits.fused.gate_up);
            flows.push_back(from_norm(norm, {fused}));
            flows.push_back(from_linear(fused, inner, inner, block + ".mlp.down_proj"));
        } else {
            flows.push_back(from_norm(norm, {block + ".mlp.gate_proj", block + ".mlp.up_proj"}));
            flows.push_back(from_linear(block + ".mlp.up_proj", 0, config.intermediate_size,
                                        block + ".mlp.down_proj"));
        }
    }

    // All but the norm before the attention and the flows.
    DecoderBlock block_behind(const std::string& name, size_t index, int64_t in) const {
        const int64_t hidden = config.hidden_size;
        const int64_t window = config.layer_windows[index];
        DecoderBlock block;
        if (config.is_linear(index)) {
            block.linear_attention = linear_attention(name + ".linear_attn", in);
        } else {
            block.attention = attention(name + ".self_attn", in, window);
        }
        if (traits.norms_around_layers) {
            block.after_attention_norm = norm(name + ".post_attention_layernorm", hidden);
            block.mlp_norm = norm(name + ".pre_feedforward_layernorm", hidden);
            block.after_mlp_norm = norm(name + ".post_feedforward_layernorm", hidden);
        } else {
            block.mlp_norm = norm(name + ".post_attention_layernorm", hidden);
        }
        load_mlp(name, index, block);
        if (!config.is_linear(index)) block.rotary = window > 0 && config.sliding_rope ? 1 : 0;
        return block;
    }

    DecoderBlock block(const std::string& name, size_t index) const {
        DecoderBlock block = block_behind(name, index, config.hidden_size);
        block.attention_norm = norm(name + ".input_layernorm", config.hidden_size);
        if (config.is_linear(index)) {
            add_linear_attention_flows(name, block.flows);
        } else {
            add_attention_flows(name, block.flows);
        }
        add_mlp_flows(name, index, block.flows);
        return block;
    }

    std::vector<Rotary> rotaries(const ModelSettings& settings) const {
        std::vector<Rotary> rotaries;
        rotaries.emplace_back(source,
                              rope_frequencies(config.rope, config.head_dim, config.max_positions,
                                               settings.max_model_len));
        if (config.sliding_rope) {
            rotaries.emplace_back(source,
                                  rope_frequencies(*config.sliding_rope, config.head_dim,
                                                   config.max_positions, settings.max_model_len));
        }
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
