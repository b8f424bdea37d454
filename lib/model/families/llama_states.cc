// Names of layers with states.
#include "lib/model/families/llama_states.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>

namespace nvllm {

LinearAttentionSizes LlamaStates::sizes() const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    return {given.key_heads, given.value_heads, given.key_dim,
            given.value_dim, given.conv_taps,   given.gate_rank};
}

std::vector<std::pair<const char*, int64_t>> LlamaStates::inputs() const {
    const LinearAttentionSizes of = sizes();
    if (is(StateLayerKind::short_conv)) return {{"in_proj", 3 * config_.hidden_size}};
    if (is(StateLayerKind::mamba2)) return {{"in_proj", of.values() + of.channels() + of.heads}};
    if (is(StateLayerKind::kimi_delta)) {
        return {{"q_proj", of.keys()},      {"k_proj", of.keys()}, {"v_proj", of.values()},
                {"g_a_proj", of.gate_rank}, {"b_proj", of.heads},  {"f_a_proj", of.gate_rank}};
    }
    if (traits_.fused.delta_net) {
        return {{"in_proj_qkvz", of.channels() + of.values()}, {"in_proj_ba", 2 * of.heads}};
    }
    return {{"in_proj_qkv", of.channels()},
            {"in_proj_z", of.values()},
            {"in_proj_b", of.heads},
            {"in_proj_a", of.heads}};
}

LinearWeight LlamaStates::load_inputs(const std::string& name, int64_t in) const {
    std::vector<LinearSpec> parts;
    for (const auto& [part, width] : inputs()) {
        parts.push_back({fmt::format("{}.{}", name, part), in, width,
                         config_.linear_attention->projection_bias});
    }
    return load_linear(source_, parts);
}

// Stored as [channels, 1, taps].
Tensor LlamaStates::stored_taps(const std::string& name, int64_t channels) const {
    const int64_t taps = config_.linear_attention->conv_taps;
    const Tensor stored = source_.read(name, {channels, 1, taps}, WeightRole::matrix);
    const ConstTensorView by_channel = stored.view().reshaped({channels, taps});
    return as_float32(source_, Tensor::borrow(by_channel, std::make_shared<Tensor>(stored)));
}

Tensor LlamaStates::convolution(const std::string& name, int64_t channels) const {
    return source_.placed(transposed(source_, stored_taps(name, channels)));
}

// One of queries, one of keys and one of values.
Tensor LlamaStates::convolution_of_parts(const std::string& name) const {
    const LinearAttentionSizes of = sizes();
    const Tensor all = Tensor::allocate(DType::f32, {of.channels(), of.taps});
    int64_t first = 0;
    for (const auto& [part, channels] :
         {std::pair("q_conv1d", of.keys()), std::pair("k_conv1d", of.keys()),
          std::pair("v_conv1d", of.values())}) {
        const Tensor stored = stored_taps(fmt::format("{}.{}.weight", name, part), channels);
        if (source_.has_values()) {
            std::memcpy(all.mutable_view().rows(first, channels).data, stored.view().data,
                        stored.bytes());
        }
        first += channels;
    }
    return source_.placed(transposed(source_, all));
}

Tensor LlamaStates::vector(const std::string& name, int64_t size) const {
    const bool has_axes = source_.has_shape(name, {1, 1, size, 1});
    const Tensor stored = has_axes ? source_.read(name, {1, 1, size, 1}, WeightRole::bias)
                                   : source_.read(name, {size}, WeightRole::bias);
    const Tensor flat =
        Tensor::borrow(stored.view().reshaped({size}), std::make_shared<Tensor>(stored));
    return source_.placed(as_float32(source_, flat));
}

ops::Activation LlamaStates::activation() const {
    return mlp_function_named(config_.linear_attention->activation).function;
}

GatedDeltaNet LlamaStates::delta_net(const std::string& name, int64_t in) const {
    GatedDeltaNet layer;
    layer.sizes = sizes();
    layer.is_by_key_head = traits_.fused.delta_net;
    layer.in = load_inputs(name, in);
    layer.out = load_linear(source_,
                            {name + ".out_proj", layer.sizes.values(), config_.hidden_size, false});
    layer.conv_taps = convolution(name + ".conv1d.weight", layer.sizes.channels());
    layer.a_log = vector(name + ".A_log", layer.sizes.heads);
    layer.dt_bias = vector(name + ".dt_bias", layer.sizes.heads);
    layer.activation = activation();
    layer.norm =
        load_rms_norm(source_, name + ".norm", layer.sizes.value_dim, config_.norm_epsilon);
    return layer;
}

GatedDeltaNet LlamaStates::kimi_delta(const std::string& name, int64_t in) const {
    GatedDeltaNet layer;
    layer.sizes = sizes();
    const LinearAttentionSizes& of = layer.sizes;
    layer.in = load_inputs(name, in);
    layer.norm_gates = load_linear(source_, {name + ".g_b_proj", of.gate_rank, of.values()});
    layer.decays = load_linear(source_, {name + ".f_b_proj", of.gate_rank, of.keys()});
    layer.out = load_linear(source_, {name + ".o_proj", of.values(), config_.hidden_size});
    layer.conv_taps = convolution_of_parts(name);
    layer.a_log = vector(name + ".A_log", of.heads);
    layer.dt_bias = vector(name + ".dt_bias", of.keys());
    layer.activation = activation();
    layer.gate = ops::Activation::sigmoid;
    layer.norm = load_rms_norm(source_, name + ".o_norm", of.value_dim, config_.norm_epsilon);
    return layer;
}

// One vector is stored for all groups.
std::vector<Norm> LlamaStates::norms_of_groups(const std::string& name) const {
    const LinearAttentionSizes of = sizes();
    if (of.key_heads == 1) {
        return {load_rms_norm(source_, name, of.values(), config_.norm_epsilon)};
    }
    const int64_t width = of.values() / of.key_heads;
    const Tensor stored = source_.read(name + ".weight", {of.values()}, WeightRole::norm);
    const auto owner = std::make_shared<Tensor>(stored);
    const ConstTensorView by_group = stored.view().reshaped({of.key_heads, width});
    std::vector<Norm> norms;
    for (int64_t group = 0; group < of.key_heads; ++group) {
        Norm norm;
        norm.weight =
            source_.placed(Tensor::borrow(by_group.rows(group, 1).reshaped({width}), owner));
        norm.epsilon = static_cast<float>(config_.norm_epsilon);
        norms.push_back(std::move(norm));
    }
    return norms;
}

Mamba2 LlamaStates::mamba(const std::string& name, int64_t in) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    Mamba2 layer;
    layer.sizes = sizes();
    layer.in = load_inputs(name, in);
    layer.out = load_linear(source_, {name + ".out_proj", layer.sizes.values(), config_.hidden_size,
                                      given.output_bias});
    layer.conv_taps = convolution(name + ".conv1d.weight", layer.sizes.channels());
    if (given.conv_bias) layer.conv_bias = vector(name + ".conv1d.bias", layer.sizes.channels());
    layer.a_log = vector(name + ".A_log", layer.sizes.heads);
    layer.dt_bias = vector(name + ".dt_bias", layer.sizes.heads);
    layer.skip = vector(name + ".D", layer.sizes.heads);
    layer.least_step = static_cast<float>(given.least_step);
    layer.activation = activation();
    if (given.has_norm) layer.norms = norms_of_groups(name + ".norm");
    layer.norm_before_gate = given.norm_before_gate;
    layer.in_scale = static_cast<float>(given.in_scale);
    layer.out_scale = static_cast<float>(given.out_scale);
    if (given.part_scales.empty()) return layer;
    const auto part = [&](size_t index) { return static_cast<float>(given.part_scales[index]); };
    layer.part_scales = {part(0), part(1), part(2), part(3), part(4)};
    return layer;
}

ShortConv LlamaStates::short_conv(const std::string& name, int64_t in) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    ShortConv layer;
    layer.channels = config_.hidden_size;
    layer.taps = given.conv_taps;
    layer.in = load_inputs(name, in);
    layer.conv_taps = convolution(name + ".conv.weight", layer.channels);
    if (given.conv_bias) layer.conv_bias = vector(name + ".conv.bias", layer.channels);
    layer.out = load_linear(
        source_, {name + ".out_proj", layer.channels, config_.hidden_size, given.output_bias});
    return layer;
}

StateLayer LlamaStates::load(const std::string& block, int64_t in) const {
    const std::string name = fmt::format("{}.{}", block, traits_.state_layer);
    if (!source_.part().tensor.is_whole()) {
        source_.note_replicated(name + ": layers with states are not shared out");
    }
    if (is(StateLayerKind::short_conv)) return short_conv(name, in);
    if (is(StateLayerKind::mamba2)) return mamba(name, in);
    if (is(StateLayerKind::kimi_delta)) return kimi_delta(name, in);
    return delta_net(name, in);
}

std::vector<std::string> LlamaStates::readers(const std::string& block) const {
    std::vector<std::string> readers;
    for (const auto& [part, width] : inputs()) {
        readers.push_back(fmt::format("{}.{}.{}", block, traits_.state_layer, part));
    }
    return readers;
}

}  // namespace nvllm
