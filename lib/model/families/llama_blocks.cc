// Names of a block's tensors, and where the channels that its linears read come from.
#include "lib/model/families/llama_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "kernels/error.h"
#include "lib/model/families/latent_loader.h"
#include "lib/model/families/llama_mlps.h"

namespace nvllm {
namespace {

constexpr ExpertNames kPlainMlp = {"mlp", "gate_proj", "up_proj", "down_proj"};

struct LlamaLoader {
    const ModelConfig& config;
    WeightSource& source;
    const LlamaTraits& traits;

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
        layer.rope_pairs = traits.rope_pairs;
        if (traits.has_sinks) {
            layer.sinks = source.placed(as_float32(
                source, source.read(name + ".sinks", {config.num_heads}, WeightRole::bias)));
        }
        if (traits.query_key_norm) {
            const bool is_whole = *traits.query_key_norm == QueryKeyNorm::projections;
            const auto size = [&](int64_t heads) {
                return is_whole ? heads * config.head_dim : config.head_dim;
            };
            layer.norm_place = *traits.query_key_norm;
            layer.query_norm = query_key_norm(name, traits.query_norm, size(config.num_heads));
            layer.key_norm = query_key_norm(name, traits.key_norm, size(config.num_kv_heads));
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

    std::vector<std::string> attention_readers(const std::string& name) const {
        if (config.latent_attention) return latent_attention_readers(config, name);
        if (traits.fused.query_key_value != nullptr) {
            return {fmt::format("{}.{}", name, traits.fused.query_key_value)};
        }
        return {name + ".q_proj", name + ".k_proj", name + ".v_proj"};
    }

    // Attention is linear in its values.
    ChannelFlow value_flow(const std::string& name) const {
        const int64_t width = config.num_heads * config.head_dim;
        const int64_t kv_width = config.num_kv_heads * config.head_dim;
        const bool is_fused = traits.fused.query_key_value != nullptr;
        ChannelFlow flow = flow_from_linear(
            is_fused ? fmt::format("{}.{}", name, traits.fused.query_key_value) : name + ".v_proj",
            is_fused ? width + kv_width : 0, kv_width, name + ".o_proj");
        flow.columns_per_channel = width / kv_width;
        return flow;
    }

    std::vector<std::string> linear_attention_readers(const std::string& name) const {
        std::vector<std::string> readers;
        for (const auto& [part, width] : linear_attention_inputs({})) {
            readers.push_back(fmt::format("{}.{}", name, part));
        }
        return readers;
    }

    // In the order of computation.
    std::vector<ChannelFlow> flows(const std::string& block, size_t index) const {
        const bool is_linear = config.is_linear(index);
        const std::string attention = block + ".self_attn";
        std::vector<std::string> readers = is_linear
                                               ? linear_attention_readers(block + ".linear_attn")
                                               : attention_readers(attention);
        std::vector<std::string> of_mlp = mlps().readers(block, index);
        if (traits.is_parallel) readers.insert(readers.end(), of_mlp.begin(), of_mlp.end());
        std::vector<ChannelFlow> flows;
        add_norm_flow(block, traits.norms.before_attention, std::move(readers), flows);
        if (!is_linear && !config.latent_attention) flows.push_back(value_flow(attention));
        add_norm_flow(block, traits.norms.before_mlp, std::move(of_mlp), flows);
        for (ChannelFlow& flow : mlps().flows(block, index)) flows.push_back(std::move(flow));
        return flows;
    }

    // All but the norm before the attention and the flows.
    DecoderBlock block_behind(const std::string& name, size_t index, int64_t in) const {
        const int64_t window = config.layer_windows[index];
        DecoderBlock block;
        if (config.is_linear(index)) {
            block.linear_attention = linear_attention(name + ".linear_attn", in);
        } else if (config.latent_attention) {
            block.latent_attention = load_latent_attention(config, source, name + ".self_attn", in);
        } else {
            block.attention = attention(name + ".self_attn", in, window);
        }
        block.after_attention_norm = norm_of(name, traits.norms.after_attention);
        block.mlp_norm = norm_of(name, traits.norms.before_mlp);
        block.mlp = mlps().load(name, index);
        block.after_mlp_norm = norm_of(name, traits.norms.after_mlp);
        block.is_parallel = traits.is_parallel;
        block.residual_scale = static_cast<float>(config.residual_scale);
        if (!config.is_linear(index) && config.rotates(static_cast<int64_t>(index))) {
            block.rotary = window > 0 && config.sliding_rope ? 1 : 0;
        }
        return block;
    }

    DecoderBlock block(const std::string& name, size_t index) const {
        DecoderBlock block = block_behind(name, index, config.hidden_size);
        block.attention_norm = norm_of(name, traits.norms.before_attention);
        block.flows = flows(name, index);
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
