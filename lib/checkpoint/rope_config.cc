// Parsing of RoPE settings.
#include "lib/checkpoint/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace nvllm {
namespace {

constexpr std::array<std::string_view, 6> kKinds = {"default", "linear", "dynamic",
                                                    "llama3",  "yarn",   "longrope"};
constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// The object that describes the scaling: rope_parameters or rope_scaling, or the one of this layer
// type inside it.
std::optional<ConfigFields> scaling_fields(const ConfigFields& fields, const char* layer_type) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
        const std::optional<ConfigFields> found = fields.object(key);
        if (!found || found->json().empty()) continue;
        const nlohmann::json* nested = found->find(layer_type);
        if (nested != nullptr && nested->is_object()) return found->object(layer_type);
        return found;
    }
    return std::nullopt;
}

std::string read_kind(const ConfigFields& scaling) {
    const char* key = scaling.has("rope_type") ? "rope_type" : "type";
    std::string kind = scaling.text(key).value_or("default");
    if (kind == "su") kind = "longrope";
    if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) {
        scaling.refuse(key, fmt::format("known kinds of RoPE are {}", fmt::join(kKinds, ", ")));
    }
    return kind;
}

double read_factor(const ConfigFields& scaling, const RopeConfig& rope, int64_t max_positions) {
    if (const auto factor = scaling.number("factor", 1e-6, kMaxFactor)) return *factor;
    // Absent, it follows from how far the positions were stretched.
    if (rope.kind == "yarn" || rope.kind == "longrope") {
        return static_cast<double>(max_positions) /
               static_cast<double>(rope.original_max_positions);
    }
    if (rope.kind != "default") {
        scaling.refuse("factor", fmt::format("RoPE of kind {} needs it", rope.kind));
    }
    return 1.0;
}

void read_llama3(const ConfigFields& scaling, RopeConfig& rope) {
    rope.low_frequency_factor = scaling.number("low_freq_factor", 1e-6, kMaxFactor).value_or(1.0);
    rope.high_frequency_factor = scaling.number("high_freq_factor", 1e-6, kMaxFactor).value_or(4.0);
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
        scaling.refuse("high_freq_factor", "it must be above low_freq_factor");
    }
}

void read_yarn(const ConfigFields& scaling, RopeConfig& rope) {
    rope.beta_fast = scaling.number("beta_fast", 1e-6, kMaxFactor).value_or(32.0);
    rope.beta_slow = scaling.number("beta_slow", 1e-6, kMaxFactor).value_or(1.0);
    rope.mscale = scaling.number("mscale", 0.0, kMaxFactor);
    rope.mscale_all_dim = scaling.number("mscale_all_dim", 0.0, kMaxFactor);
    rope.truncate = scaling.boolean("truncate").value_or(true);
}

void read_longrope(const ConfigFields& scaling, int64_t head_dim, RopeConfig& rope) {
    const auto rotary =
        static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
    for (const char* key : {"short_factor", "long_factor"}) {
        const auto factors = scaling.numbers(key, 1e-6, kMaxFactor);
        if (!factors || static_cast<int64_t>(factors->size()) != rotary / 2) {
            scaling.refuse(key, fmt::format("a list of {} factors is expected", rotary / 2));
        }
        (key[0] == 's' ? rope.short_factor : rope.long_factor) = *factors;
    }
}

}  // namespace

RopeConfig read_rope_config(const ConfigFields& fields, const char* layer_type,
                            double default_theta, int64_t max_positions, int64_t head_dim) {
    RopeConfig rope;
    rope.theta = fields.number("rope_theta", 1.0, kMaxTheta).value_or(default_theta);
    rope.partial_rotary_factor = fields.number("partial_rotary_factor", 1e-3, 1.0).value_or(1.0);
    rope.original_max_positions =
        fields.integer("original_max_position_embeddings", 1, kMaxPositions).value_or(0);
    const std::optional<ConfigFields> scaling = scaling_fields(fields, layer_type);
    if (!scaling) return rope;

    rope.kind = read_kind(*scaling);
    rope.theta = scaling->number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
    rope.partial_rotary_factor =
        scaling->number("partial_rotary_factor", 1e-3, 1.0).value_or(rope.partial_rotary_factor);
    // What stands beside the scaling wins over what stands in it, as transformers reads Phi-3.
    const auto original = scaling->integer("original_max_position_embeddings", 1, kMaxPositions);
    if (rope.original_max_positions == 0)
        rope.original_max_positions = original.value_or(max_positions);
    rope.factor = read_factor(*scaling, rope, max_positions);
    rope.attention_factor = scaling->number("attention_factor", 0.0, kMaxFactor);
    if (rope.kind == "llama3") read_llama3(*scaling, rope);
    if (rope.kind == "yarn") read_yarn(*scaling, rope);
    if (rope.kind == "longrope") read_longrope(*scaling, head_dim, rope);
    return rope;
}

}  // namespace nvllm
