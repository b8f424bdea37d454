// Names of linears, experts and flows.
#include "lib/model/families/llama_mlps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/error.h"
#include "lib/model/lora/lora_targets.h"

namespace nvllm {
namespace {

// Of a clamped expert: rows of gate and up in pairs, as a stack has them.
constexpr const char* kPairs = "gate_up_proj";

// Of [count], or of [1, count].
std::vector<float> values_of(WeightSource& source, const std::string& name, int64_t count) {
    const bool is_row = source.has_shape(name, {1, count});
    const Tensor stored =
        as_float32(source, is_row ? source.read(name, {1, count}, WeightRole::bias)
                                  : source.read(name, {count}, WeightRole::bias));
    if (!source.has_values()) return std::vector<float>(static_cast<size_t>(count));
    const float* const values = stored.view().as<float>();
    return {values, values + count};
}

// Of a dense layer.
std::string mlp_name(const WeightSource& source, const MlpNames& names, const std::string& block) {
    if (names.other_layer != nullptr) {
        const std::string other = fmt::format("{}.{}", block, names.other_layer);
        if (source.has_matrix(fmt::format("{}.{}", other, names.up))) return other;
    }
    return fmt::format("{}.{}", block, names.layer);
}

MlpLinears mlp_linears(const LlamaTraits& traits, const std::string& name, const MlpNames& names,
                       int64_t hidden, int64_t inner, bool bias) {
    const auto in = [&](const char* linear, std::vector<ShardPiece> pieces) {
        const int64_t out = std::ssize(pieces) * inner;
        return LinearSpec{fmt::format("{}.{}", name, linear),
                          hidden,
                          out,
                          bias,
                          ShardAxis::output,
                          std::move(pieces)};
    };
    MlpLinears linears;
    linears.down = {fmt::format("{}.{}", name, names.down), inner, hidden, bias, ShardAxis::input};
    if (!traits.gated_mlp) {
        linears.in = {in(names.up, {inner})};
    } else if (names.gate_up != nullptr) {
        linears.in = {in(names.gate_up, {inner, inner})};
    } else {
        linears.in = {in(names.gate, {inner}), in(names.up, {inner})};
    }
    return linears;
}

// The experts of all ranks' slots; empty where not each rank can have as many.
std::vector<int32_t> expert_slots(const ModelPart& part, const std::string& block, size_t experts) {
    for (const SlotsOfBlock& slots : part.expert_options.slots) {
        if (slots.block != block) continue;
        NVLLM_CHECK(
            std::ssize(slots.experts) % part.experts.ranks == 0 &&
                std::ranges::all_of(
                    slots.experts,
                    [&](int32_t one) { return one >= 0 && static_cast<size_t>(one) < experts; }),
            "slots of the layer's experts, as many of each rank");
        return slots.experts;
    }
    std::vector<int32_t> in_order;
    if (experts % static_cast<size_t>(part.experts.ranks) != 0) return in_order;
    in_order.resize(experts);
    std::iota(in_order.begin(), in_order.end(), 0);
    return in_order;
}

// Of experts that are spread over ranks this one's are left.
void choose_share(WeightSource& source, const std::string& block, MoeMlp& layer,
                  std::vector<MlpLinears>& experts) {
    const ModelPart& part = source.part();
    if (part.experts.is_whole()) return;
    MoeMlp::Share share{part.experts.rank, part.experts.ranks, part.tensor.rank, part.tensor.ranks,
                        expert_slots(part, block, experts.size())};
    if (share.expert_of_slot.empty()) return;
    const auto own_slots = std::span<const int32_t>(share.expert_of_slot)
                               .subspan(static_cast<size_t>(share.rank * share.slots_of_rank()),
                                        static_cast<size_t>(share.slots_of_rank()));
    std::vector<MlpLinears> own;
    for (size_t i = 0; i < experts.size(); ++i) {
        if (std::ranges::find(own_slots, static_cast<int32_t>(i)) != own_slots.end()) {
            own.push_back(std::move(experts[i]));
            continue;
        }
        for (const LinearSpec& linear : experts[i].all()) source.pass_over(linear.name);
    }
    experts = std::move(own);
    layer.share = std::move(share);
}

}  // namespace

Mlp LlamaMlps::mlp(const MlpLinears& linears, const ModuleSharding& cut, bool is_partial) const {
    Mlp layer;
    layer.activation = mlp_function_named(config_.activation);
    layer.gated = traits_.gated_mlp;
    layer.in = load_linear(source_, cut.of(linears.in));
    LinearSpec down = cut.of(linears.down);
    down.is_partial = is_partial;
    layer.down = load_linear(source_, down);
    layer.gate_scale = static_cast<float>(config_.mlp_gate_scale);
    layer.out_scale = static_cast<float>(config_.mlp_out_scale);
    return layer;
}

Mlp LlamaMlps::mlp(const std::string& name, const MlpNames& names, int64_t hidden, int64_t inner,
                   bool bias) const {
    const MlpLinears linears = mlp_linears(traits_, name, names, hidden, inner, bias);
    return mlp(linears, ModuleSharding(source_, linears.all()), false);
}

// Experts that are stored as one tensor for all: [experts, 2 * inner, hidden], gate before up, or
// [experts, inner, hidden] without gates; and [experts, hidden, inner]; either may be turned.
void LlamaMlps::name_fused_experts(const std::string& layer) const {
    const std::string in = fmt::format("{}.{}", layer, traits_.experts.in_stack);
    const std::string down = fmt::format("{}.{}", layer, traits_.experts.down_stack);
    if (!source_.has(in)) return;
    const int64_t hidden = config_.expert_channels();
    const int64_t inner = config_.expert_intermediate_size;
    const int64_t rows = traits_.gated_mlp ? 2 * inner : inner;
    const bool is_in_turned = is_turned(in, rows, hidden);
    const bool is_down_turned = is_turned(down, hidden, inner);
    const int64_t experts = config_.num_experts;
    for (int64_t expert = 0; expert < experts; ++expert) {
        const auto name = [&](const char* linear) {
            return fmt::format("{}.experts.{}.{}.weight", layer, expert, linear);
        };
        const auto of_in = [&](int64_t first) {
            return StoredPart{in, expert, first, inner, is_in_turned, experts, rows};
        };
        if (traits_.gated_mlp) source_.name_part(name(traits_.experts.gate), of_in(0));
        source_.name_part(name(traits_.experts.up), of_in(rows - inner));
        source_.name_part(name(traits_.experts.down),
                          {down, expert, 0, hidden, is_down_turned, experts, hidden});
    }
}

// Names for a linear of each expert of a stack: its matrices, turned or in MXFP4, and its biases.
void LlamaMlps::name_stack(const std::string& layer, const char* stack, const char* linear,
                           StoredPart rows) const {
    const std::string whole = fmt::format("{}.{}", layer, stack);
    const bool is_quantized = source_.has(whole + "_blocks");
    if (!is_quantized && !source_.has(whole)) return;
    rows.num_matrices = config_.num_experts;
    for (rows.matrix = 0; rows.matrix < rows.num_matrices; ++rows.matrix) {
        const std::string name = fmt::format("{}.experts.{}.{}", layer, rows.matrix, linear);
        const auto add = [&](const char* tensor, const char* of_stack, bool is_turned) {
            rows.whole = whole + of_stack;
            rows.is_turned = is_turned;
            source_.name_part(name + tensor, rows);
        };
        add(".bias", "_bias", false);
        if (!is_quantized) {
            add(".weight", "", true);
            continue;
        }
        add(".weight_packed", "_blocks", false);
        add(".weight_scale", "_scales", false);
    }
}

bool LlamaMlps::are_apart(const std::string& layer) const {
    return source_.hook() != nullptr ||
           source_.has_matrix(fmt::format("{}.experts.0.{}", layer, traits_.experts.gate));
}

void LlamaMlps::name_clamped_experts(const std::string& layer) const {
    const ExpertNames& names = traits_.experts;
    const int64_t inner = config_.expert_intermediate_size;
    StoredPart rows;
    rows.num_outputs = 2 * inner;
    if (are_apart(layer)) {
        rows.count = inner;
        rows.step = 2;
        name_stack(layer, names.in_stack, names.gate, rows);
        rows.first = 1;
        name_stack(layer, names.in_stack, names.up, rows);
    } else {
        rows.count = 2 * inner;
        name_stack(layer, names.in_stack, kPairs, rows);
    }
    rows = {};
    rows.num_outputs = rows.count = config_.hidden_size;
    name_stack(layer, names.down_stack, names.down, rows);
}

MlpLinears LlamaMlps::clamped_linears(const std::string& layer, int64_t expert) const {
    const int64_t hidden = config_.hidden_size;
    const int64_t inner = config_.expert_intermediate_size;
    const std::string name = fmt::format("{}.experts.{}.", layer, expert);
    const auto in = [&](const char* linear, ShardPiece piece) {
        return LinearSpec{name + linear, hidden, piece.size, true, ShardAxis::output, {piece}};
    };
    MlpLinears linears;
    linears.down = {name + traits_.experts.down, inner, hidden, true, ShardAxis::input};
    if (are_apart(layer)) {
        linears.in = {in(traits_.experts.gate, inner), in(traits_.experts.up, inner)};
    } else {
        linears.in = {in(kPairs, {2 * inner, inner})};
    }
    return linears;
}

// Whether a stack of experts' matrices is [experts, in, out] and not [experts, out, in].
bool LlamaMlps::is_turned(const std::string& stack, int64_t out, int64_t in) const {
    if (traits_.experts.has_turned_stacks) return *traits_.experts.has_turned_stacks;
    if (source_.has_shape(stack, {config_.num_experts, out, in})) return false;
    if (source_.has_shape(stack, {config_.num_experts, in, out})) return true;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: tensor {} is not [{}, {}, {}] or that turned; do the weights "
                            "belong to this config.json?",
                            source_.place_of(stack), stack, config_.num_experts, out, in));
}

Routing LlamaMlps::routing(const std::string& layer) const {
    Routing routing = traits_.routing;
    routing.experts_per_token = config_.experts_per_token;
    routing.normalize_weights = config_.normalize_expert_weights;
    routing.num_groups = config_.num_expert_groups;
    routing.groups_per_token = config_.expert_groups_per_token;
    routing.groups_by_best = config_.groups_by_best;
    routing.mixer_noise = static_cast<float>(config_.router_noise);
    routing.weight_scale = static_cast<float>(config_.expert_weight_scale);
    if (traits_.experts.choice_bias != nullptr && config_.has_choice_bias) {
        routing.bias = values_of(source_, fmt::format("{}.{}", layer, traits_.experts.choice_bias),
                                 config_.num_experts);
    }
    if (traits_.experts.scales != nullptr) {
        routing.expert_scales = values_of(
            source_, fmt::format("{}.{}", layer, traits_.experts.scales), config_.num_experts);
    }
    return routing;
}

// Of what the router reads: a norm without weights, then factors of the channels.
Norm LlamaMlps::router_norm(const std::string& name) const {
    const int64_t hidden = config_.hidden_size;
    std::vector<float> factors = values_of(source_, name, hidden);
    for (float& factor : factors) factor /= std::sqrt(static_cast<float>(hidden));
    const Tensor weight = Tensor::allocate(DType::f32, {hidden});
    std::ranges::copy(factors, weight.mutable_view().as<float>());
    Norm norm;
    norm.weight = source_.placed(weight);
    norm.epsilon = static_cast<float>(config_.norm_epsilon);
    return norm;
}

std::string LlamaMlps::shared_name(const std::string& block) const {
    const ExpertNames& names = traits_.experts;
    if (config_.shared_expert_intermediate_size == 0) return {};
    if (names.has_own_mlp) return mlp_name(source_, traits_.mlp, block);
    if (names.shared == nullptr) return {};
    return fmt::format("{}.{}.{}", block, names.layer, names.shared);
}

void LlamaMlps::load_latent(const std::string& layer, MoeMlp& moe) const {
    const int64_t latent = config_.expert_latent_size;
    if (latent == 0 || traits_.experts.latent_in == nullptr) return;
    const int64_t hidden = config_.hidden_size;
    moe.latent_in = load_linear(source_, {fmt::format("{}.{}", layer, traits_.experts.latent_in),
                                          hidden, latent, config_.mlp_bias});
    moe.latent_out = load_linear(source_, {fmt::format("{}.{}", layer, traits_.experts.latent_out),
                                           latent, hidden, config_.mlp_bias});
}

MoeMlp LlamaMlps::sparse(const std::string& block) const {
    const ExpertNames& names = traits_.experts;
    const std::string name = sparse_name(block);
    if (traits_.clamped_experts) {
        name_clamped_experts(name);
    } else {
        name_fused_experts(name);
    }
    MoeMlp layer;
    {
        // It may be given a part of the rows.
        const WithoutLoraTargets scope(source_);
        layer.router =
            load_linear(source_, {fmt::format("{}.{}", name, names.router), config_.hidden_size,
                                  config_.num_experts, names.has_router_bias});
    }
    layer.routing = routing(name);
    if (names.router_scale != nullptr) {
        layer.router_norm = router_norm(fmt::format("{}.{}", name, names.router_scale));
    }
    layer.weighs_inputs = traits_.weighs_inputs;
    layer.computes_all = source_.hook() != nullptr && !layer.weighs_inputs;
    load_latent(name, layer);
    load_experts(block, layer);
    return layer;
}

std::vector<MlpLinears> LlamaMlps::expert_linears(const std::string& layer) const {
    const ExpertNames& names = traits_.experts;
    std::vector<MlpLinears> experts;
    for (int64_t expert = 0; expert < config_.num_experts; ++expert) {
        if (traits_.clamped_experts) {
            experts.push_back(clamped_linears(layer, expert));
            continue;
        }
        experts.push_back(mlp_linears(traits_, fmt::format("{}.experts.{}", layer, expert),
                                      {names.layer, names.gate, names.up, names.down},
                                      config_.expert_channels(), config_.expert_intermediate_size,
                                      false));
    }
    return experts;
}

// The experts and the one for all tokens are cut alike: one sum over ranks is of both.

void LlamaMlps::load_experts(const std::string& block, MoeMlp& layer) const {
    const std::string name = sparse_name(block);
    std::vector<MlpLinears> experts = expert_linears(name);
    choose_share(source_, block, layer, experts);
    const ExpertOptions& options = source_.part().expert_options;
    layer.capacity_factor = options.capacity_factor;
    // Of ranks with the same rows one counts.
    if (layer.share || source_.part().tensor.rank == 0) {
        layer.counts = std::make_shared<ExpertCounts>(
            ExpertCounts{block, std::vector<int64_t>(static_cast<size_t>(config_.num_experts))});
    }
    std::vector<LinearSpec> all;
    for (const MlpLinears& expert : experts) {
        if (layer.share) break;  // they are whole
        for (LinearSpec& linear : expert.all()) all.push_back(std::move(linear));
    }
    const std::string shared = shared_name(block);
    MlpLinears of_shared;
    if (!shared.empty()) {
        of_shared = mlp_linears(traits_, shared, traits_.mlp, config_.hidden_size,
                                config_.shared_expert_intermediate_size, config_.mlp_bias);
        for (LinearSpec& linear : of_shared.all()) all.push_back(std::move(linear));
    }
    const ModuleSharding cut(source_, all);
    layer.is_cut = !layer.share && !cut.shard().is_whole();
    if (!shared.empty()) {
        layer.shared = mlp(of_shared, cut, layer.sums_with_shared());
        if (traits_.experts.shared_gate != nullptr) {
            layer.shared_gate =
                load_linear(source_, {fmt::format("{}.{}", name, traits_.experts.shared_gate),
                                      config_.hidden_size, 1, false});
        }
    }
    // Rows of other ranks come without their adapters.
    std::optional<WithoutLoraTargets> without_adapters;
    if (layer.share) without_adapters.emplace(source_);
    const LoraTargets::Experts experts_scope(source_.lora_targets());
    const bool is_gated = traits_.gated_mlp && !traits_.clamped_experts;
    const bool host_chooses = layer.share || options.capacity_factor > 0.0 || options.are_counted;
    if (is_gated && layer.routing.is_plain() && !host_chooses) {
        std::vector<ExpertLinears> stacked;
        for (const MlpLinears& expert : experts) {
            stacked.push_back({cut.of(expert.in[0]), cut.of(expert.in[1]), cut.of(expert.down)});
        }
        if (can_stack(source_, stacked)) {
            layer.stack =
                load_expert_stack(source_, stacked, mlp_function_named(config_.activation));
            return;
        }
    }
    const ModuleSharding of_experts = layer.share ? ModuleSharding() : cut;
    for (const MlpLinears& expert : experts) {
        layer.experts.push_back(mlp(expert, of_experts, true));
        if (!traits_.clamped_experts) continue;
        layer.experts.back().clamped = ClampedSwiglu{
            static_cast<float>(config_.swiglu_alpha), static_cast<float>(config_.swiglu_limit),
            expert.in.size() > 1 ? ops::GateOrder::halves : ops::GateOrder::pairs};
    }
}

std::string LlamaMlps::sparse_name(const std::string& block) const {
    const std::string_view layer = traits_.experts.layer;
    return layer.empty() ? block : fmt::format("{}.{}", block, layer);
}

std::variant<Mlp, MoeMlp> LlamaMlps::load(const std::string& block, size_t index) const {
    if (is_sparse(index)) return sparse(block);
    return mlp(mlp_name(source_, traits_.mlp, block), traits_.mlp, config_.hidden_size,
               width(index), config_.mlp_bias);
}

std::vector<std::string> LlamaMlps::mlp_readers(const std::string& name) const {
    const auto below = [&](const char* linear) { return fmt::format("{}.{}", name, linear); };
    if (!traits_.gated_mlp) return {below(traits_.mlp.up)};
    if (traits_.mlp.gate_up != nullptr) return {below(traits_.mlp.gate_up)};
    return {below(traits_.mlp.gate), below(traits_.mlp.up)};
}

ChannelFlow LlamaMlps::mlp_flow(const std::string& name, int64_t inner) const {
    const bool is_fused = traits_.mlp.gate_up != nullptr;
    const char* const up = is_fused ? traits_.mlp.gate_up : traits_.mlp.up;
    return flow_from_linear(fmt::format("{}.{}", name, up), is_fused ? inner : 0, inner,
                            fmt::format("{}.{}", name, traits_.mlp.down));
}

std::vector<std::string> LlamaMlps::readers(const std::string& block, size_t index) const {
    if (!is_sparse(index)) {
        return mlp_readers(mlp_name(source_, traits_.mlp, block));
    }
    const ExpertNames& names = traits_.experts;
    const std::string layer = sparse_name(block);
    std::vector<std::string> readers = {fmt::format("{}.{}", layer, names.router)};
    if (config_.expert_latent_size > 0) {
        readers.push_back(fmt::format("{}.{}", layer, names.latent_in));
    } else {
        for (const MlpLinears& expert : expert_linears(layer)) {
            for (const LinearSpec& linear : expert.in) readers.push_back(linear.name);
        }
    }
    const std::string shared = shared_name(block);
    if (shared.empty()) return readers;
    for (std::string& reader : mlp_readers(shared)) readers.push_back(std::move(reader));
    if (names.shared_gate != nullptr) {
        readers.push_back(fmt::format("{}.{}", layer, names.shared_gate));
    }
    return readers;
}

// A gated MLP is linear in what goes up.
std::vector<ChannelFlow> LlamaMlps::flows(const std::string& block, size_t index) const {
    std::vector<ChannelFlow> flows;
    if (!traits_.gated_mlp || traits_.clamped_experts) return flows;
    if (!is_sparse(index)) {
        flows.push_back(mlp_flow(mlp_name(source_, traits_.mlp, block), width(index)));
        return flows;
    }
    const std::string layer = sparse_name(block);
    for (const MlpLinears& expert : expert_linears(layer)) {
        const LinearSpec& up = expert.in.back();
        flows.push_back(flow_from_linear(up.name, 0, up.out, expert.down.name));
    }
    const std::string shared = shared_name(block);
    if (!shared.empty()) {
        flows.push_back(mlp_flow(shared, config_.shared_expert_intermediate_size));
    }
    return flows;
}

ChannelFlow flow_from_linear(const std::string& name, int64_t first_row, int64_t channels,
                             const std::string& reader) {
    ChannelFlow flow;
    flow.kind = ChannelFlow::Writer::linear;
    flow.writer = name;
    flow.readers = {reader};
    flow.channels = channels;
    flow.first_row = first_row;
    return flow;
}

}  // namespace nvllm
