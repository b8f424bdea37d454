// Names of layers with states.
#include "lib/model/families/llama_states.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

namespace nvllm {

LinearAttentionSizes LlamaStates::sizes() const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    return {given.key_heads, given.value_heads, given.key_dim,
            given.value_dim, given.conv_taps,   given.gate_rank};
}

// Heads that read the same keys stay together: a key head of fewer than there are ranks is of
// several, unless something else is of all its heads.
ShardPiece LlamaStates::of_key_heads(int64_t size) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    const bool is_divided = traits_.fused.delta_net || given.has_norm;
    return {size, given.key_heads, !is_divided};
}

ShardPiece LlamaStates::of_heads(int64_t size) const { return {size, sizes().heads}; }

LinearAttentionSizes LlamaStates::sizes(const ModuleSharding& cut) const {
    LinearAttentionSizes of = sizes();
    of.key_heads = of_key_heads(of.key_heads).share_of(cut.shard());
    of.heads = cut.share(of.heads);
    return of;
}

LlamaStates::Linears LlamaStates::linears(const std::string& name, int64_t in) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    const LinearAttentionSizes of = sizes();
    const ShardPiece keys = of_key_heads(of.keys());
    const ShardPiece values = of_heads(of.values());
    const ShardPiece heads = of_heads(of.heads);
    Linears linears;
    const auto add = [&](const char* part, const std::vector<ShardPiece>& pieces) {
        int64_t out = 0;
        for (const ShardPiece& piece : pieces) out += piece.size;
        linears.in.push_back({fmt::format("{}.{}", name, part), in, out, given.projection_bias,
                              ShardAxis::output, pieces});
    };
    const char* out = "out_proj";
    int64_t width = of.values();
    if (is(StateLayerKind::short_conv)) {
        width = config_.hidden_size;
        add("in_proj", {width, width, width});
    } else if (is(StateLayerKind::mamba2)) {
        add("in_proj", {values, values, keys, keys, heads});
    } else if (is(StateLayerKind::kimi_delta)) {
        out = "o_proj";
        add("q_proj", {keys});
        add("k_proj", {keys});
        add("v_proj", {values});
        linears.in.push_back({name + ".g_a_proj", in, of.gate_rank});
        add("b_proj", {heads});
        linears.in.push_back({name + ".f_a_proj", in, of.gate_rank});
        linears.of_gates = {
            {name + ".g_b_proj", of.gate_rank, of.values(), false, ShardAxis::output, {values}},
            {name + ".f_b_proj", of.gate_rank, of.keys(), false, ShardAxis::output, {keys}}};
    } else if (traits_.fused.delta_net) {
        add("in_proj_qkvz", {of_key_heads(of.channels() + of.values())});
        add("in_proj_ba", {of_key_heads(2 * of.heads)});
    } else {
        add("in_proj_qkv", {keys, keys, values});
        add("in_proj_z", {values});
        add("in_proj_b", {heads});
        add("in_proj_a", {heads});
    }
    linears.out = {fmt::format("{}.{}", name, out), width, config_.hidden_size, given.output_bias,
                   ShardAxis::input};
    return linears;
}

std::vector<ShardPiece> LlamaStates::channels() const {
    if (is(StateLayerKind::short_conv)) return {config_.hidden_size};
    const ShardPiece keys = of_key_heads(sizes().keys());
    const ShardPiece values = of_heads(sizes().values());
    if (is(StateLayerKind::mamba2)) return {values, keys, keys};
    return {keys, keys, values};
}

// Stored as [channels, 1, taps].
Tensor LlamaStates::stored_taps(const std::string& name, std::span<const ShardPiece> pieces,
                                const ModuleSharding& cut) const {
    const int64_t taps = config_.linear_attention->conv_taps;
    const int64_t count = share_of(pieces, cut.shard());
    const Tensor stored =
        source_.read_slice(name, {count, 1, taps}, WeightRole::matrix, {cut.shard(), 0, pieces});
    const ConstTensorView by_channel = stored.view().reshaped({count, taps});
    return as_float32(source_, Tensor::borrow(by_channel, std::make_shared<Tensor>(stored)));
}

Tensor LlamaStates::convolution(const std::string& name, const ModuleSharding& cut) const {
    return source_.placed(transposed(source_, stored_taps(name, channels(), cut)));
}

// One of queries, one of keys and one of values.
Tensor LlamaStates::convolution_of_parts(const std::string& name, const ModuleSharding& cut) const {
    const LinearAttentionSizes of = sizes(cut);
    const std::vector<ShardPiece> pieces = channels();
    const Tensor all = Tensor::allocate(DType::f32, {of.channels(), of.taps});
    int64_t first = 0;
    size_t index = 0;
    for (const char* part : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
        const std::span<const ShardPiece> own = std::span(pieces).subspan(index++, 1);
        const Tensor stored = stored_taps(fmt::format("{}.{}.weight", name, part), own, cut);
        const int64_t count = share_of(own, cut.shard());
        if (source_.has_values()) {
            std::memcpy(all.mutable_view().rows(first, count).data, stored.view().data,
                        stored.bytes());
        }
        first += count;
    }
    return source_.placed(transposed(source_, all));
}

Tensor LlamaStates::vector(const std::string& name, std::span<const ShardPiece> pieces,
                           const ModuleSharding& cut) const {
    const int64_t size = share_of(pieces, {});
    const TensorSlice slice{cut.shard(), 0, pieces};
    if (!source_.has_shape(name, {1, 1, size, 1})) {
        const Tensor stored =
            source_.read_slice(name, {share_of(pieces, cut.shard())}, WeightRole::bias, slice);
        return source_.placed(as_float32(source_, stored));
    }
    const Tensor stored = source_.read(name, {1, 1, size, 1}, WeightRole::bias);
    const Tensor flat =
        Tensor::borrow(stored.view().reshaped({size}), std::make_shared<Tensor>(stored));
    return source_.placed(as_float32(source_, nvllm::cut(flat, slice)));
}

ops::Activation LlamaStates::activation() const {
    return mlp_function_named(config_.linear_attention->activation).function;
}

GatedDeltaNet LlamaStates::delta_net(const std::string& name, const Linears& linears,
                                     const ModuleSharding& cut) const {
    const ShardPiece heads[] = {of_heads(sizes().heads)};
    GatedDeltaNet layer;
    layer.sizes = sizes(cut);
    layer.is_by_key_head = traits_.fused.delta_net;
    layer.in = load_linear(source_, cut.of(linears.in));
    layer.out = load_linear(source_, cut.of(linears.out));
    layer.conv_taps = convolution(name + ".conv1d.weight", cut);
    layer.a_log = vector(name + ".A_log", heads, cut);
    layer.dt_bias = vector(name + ".dt_bias", heads, cut);
    layer.activation = activation();
    layer.norm =
        load_rms_norm(source_, name + ".norm", layer.sizes.value_dim, config_.norm_epsilon);
    return layer;
}

GatedDeltaNet LlamaStates::kimi_delta(const std::string& name, const Linears& linears,
                                      const ModuleSharding& cut) const {
    const ShardPiece heads[] = {of_heads(sizes().heads)};
    const ShardPiece keys[] = {of_key_heads(sizes().keys())};
    GatedDeltaNet layer;
    layer.sizes = sizes(cut);
    layer.in = load_linear(source_, cut.of(linears.in));
    layer.norm_gates = load_linear(source_, cut.of(linears.of_gates[0]));
    layer.decays = load_linear(source_, cut.of(linears.of_gates[1]));
    layer.out = load_linear(source_, cut.of(linears.out));
    layer.conv_taps = convolution_of_parts(name, cut);
    layer.a_log = vector(name + ".A_log", heads, cut);
    layer.dt_bias = vector(name + ".dt_bias", keys, cut);
    layer.activation = activation();
    layer.gate = ops::Activation::sigmoid;
    layer.norm =
        load_rms_norm(source_, name + ".o_norm", layer.sizes.value_dim, config_.norm_epsilon);
    return layer;
}

// One vector is stored for all groups.
std::vector<Norm> LlamaStates::norms_of_groups(const std::string& name,
                                               const ModuleSharding& cut) const {
    const LinearAttentionSizes of = sizes(cut);
    const ShardPiece values[] = {of_heads(sizes().values())};
    const int64_t width = of.values() / of.key_heads;
    const Tensor stored = source_.read_slice(name + ".weight", {of.values()}, WeightRole::norm,
                                             {cut.shard(), 0, values});
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

Mamba2 LlamaStates::mamba(const std::string& name, const Linears& linears,
                          const ModuleSharding& cut) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    const ShardPiece heads[] = {of_heads(sizes().heads)};
    Mamba2 layer;
    layer.sizes = sizes(cut);
    layer.in = load_linear(source_, cut.of(linears.in));
    layer.out = load_linear(source_, cut.of(linears.out));
    layer.conv_taps = convolution(name + ".conv1d.weight", cut);
    if (given.conv_bias) layer.conv_bias = vector(name + ".conv1d.bias", channels(), cut);
    layer.a_log = vector(name + ".A_log", heads, cut);
    layer.dt_bias = vector(name + ".dt_bias", heads, cut);
    layer.skip = vector(name + ".D", heads, cut);
    layer.least_step = static_cast<float>(given.least_step);
    layer.activation = activation();
    if (given.has_norm) layer.norms = norms_of_groups(name + ".norm", cut);
    layer.norm_before_gate = given.norm_before_gate;
    layer.in_scale = static_cast<float>(given.in_scale);
    layer.out_scale = static_cast<float>(given.out_scale);
    if (given.part_scales.empty()) return layer;
    const auto part = [&](size_t index) { return static_cast<float>(given.part_scales[index]); };
    layer.part_scales = {part(0), part(1), part(2), part(3), part(4)};
    return layer;
}

ShortConv LlamaStates::short_conv(const std::string& name, const Linears& linears,
                                  const ModuleSharding& cut) const {
    const LinearAttentionConfig& given = *config_.linear_attention;
    ShortConv layer;
    layer.channels = cut.share(config_.hidden_size);
    layer.taps = given.conv_taps;
    layer.in = load_linear(source_, cut.of(linears.in));
    layer.conv_taps = convolution(name + ".conv.weight", cut);
    if (given.conv_bias) layer.conv_bias = vector(name + ".conv.bias", channels(), cut);
    layer.out = load_linear(source_, cut.of(linears.out));
    return layer;
}

StateLayer LlamaStates::load(const std::string& block, int64_t in) const {
    const std::string name = fmt::format("{}.{}", block, traits_.state_layer);
    const Linears of = linears(name, in);
    std::vector<LinearSpec> all = of.in;
    all.insert(all.end(), of.of_gates.begin(), of.of_gates.end());
    all.push_back(of.out);
    const ModuleSharding cut(source_, all);
    if (is(StateLayerKind::short_conv)) return short_conv(name, of, cut);
    if (is(StateLayerKind::mamba2)) return mamba(name, of, cut);
    if (is(StateLayerKind::kimi_delta)) return kimi_delta(name, of, cut);
    return delta_net(name, of, cut);
}

std::vector<std::string> LlamaStates::readers(const std::string& block) const {
    std::vector<std::string> readers;
    const std::string name = fmt::format("{}.{}", block, traits_.state_layer);
    for (const LinearSpec& linear : linears(name, 0).in) readers.push_back(linear.name);
    return readers;
}

}  // namespace nvllm
