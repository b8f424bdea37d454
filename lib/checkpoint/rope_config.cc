// Parsing of RoPE settings.
#include "lib/checkpoint/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/harmless_keys.h"

namespace nvllm {
namespace {

constexpr std::array<std::string_view, 7> kKinds = {"default", "linear",   "dynamic",     "llama3",
                                                    "yarn",    "longrope", "proportional"};
constexpr double kMaxFactor = 1e6;

struct Scaling {
    std::string name;  // "rope_parameters.full_attention"
    ConfigFields fields;
};

// The object that describes the scaling: rope_parameters or rope_scaling, or the one of this layer
// type inside it.
std::optional<Scaling> find_scaling(const ConfigFields& fields, const char* layer_type) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
        const std::optional<ConfigFields> found = fields.object(key);
        if (!found || found->json().empty()) continue;
        const nlohmann::json* nested = found->find(layer_type);
        if (nested == nullptr || !nested->is_object()) return Scaling{key, *found};
        return Scaling{fmt::format("{}.{}", key, layer_type), *found->object(layer_type)};
    }
    return std::nullopt;
}

std::string read_kind(const ConfigFields& scaling, const FamilyDefaults& family) {
    const char* const old_key = scaling.has("type") ? "type" : "rope_type";
    const char* const key = scaling.has("rope_type") ? "rope_type" : old_key;
    std::string kind = scaling.text(key).value_or("default");
    if (kind == "su") kind = "longrope";
    if (kind == "mrope" && family.has_mrope) kind = "default";
    if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) {
        scaling.refuse(key, fmt::format("known kinds of RoPE are {}", fmt::join(kKinds, ", ")));
    }
    return kind;
}

double read_factor(const ConfigFields& scaling, const RopeConfig& rope, int64_t max_positions) {
    if (const auto factor = scaling.number("factor", 1e-6, kMaxFactor)) return *factor;
    if (rope.kind == "proportional") return 1.0;
    // Absent, it follows from how far the positions were stretched.
    if (rope.kind == "yarn" || rope.kind == "longrope") {
        return static_cast<double>(max_positions) /
               static_cast<double>(rope.original_max_positions);
    }
    scaling.refuse("factor", fmt::format("RoPE of kind {} needs it", rope.kind));
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

// What only some families say of their RoPE.
void read_own_keys(const ConfigFields& scaling, const FamilyDefaults& family, RopeConfig& rope) {
    if (rope.kind == "dynamic" && reads_key(family, "alpha")) {
        // 0 is none.
        rope.alpha = scaling.number("alpha", 0.0, kMaxFactor);
        if (rope.alpha == 0.0) rope.alpha.reset();
        // Of HunYuan's files, which YaRN would read.
        for (const char* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
            scaling.find(key);
        }
    }
    if (reads_key(family, "llama_4_scaling_beta")) {
        rope.query_beta = scaling.number("llama_4_scaling_beta", 0.0, kMaxFactor).value_or(0.0);
        scaling.find("max_position_embeddings");  // says what the config says
    }
}

// Phi-3.5-MoE states the factor on cosines and sines, for short sequences and for long ones.
void read_mscales(const ConfigFields& scaling, RopeConfig& rope) {
    const auto of_short = scaling.number("short_mscale", 0.0, kMaxFactor);
    const auto of_long = scaling.number("long_mscale", 0.0, kMaxFactor);
    if (!of_short) scaling.refuse("short_mscale", "RoPE of this model needs it");
    if (of_short != of_long) {
        scaling.refuse("long_mscale", "it must be what short_mscale is");
    }
    const bool is_plain = rope.kind != "longrope" && rope.kind != "yarn";
    if (is_plain && *of_short != 1.0) {
        scaling.refuse("short_mscale",
                       fmt::format("with RoPE of kind {} only 1 is supported", rope.kind));
    }
    rope.attention_factor = of_short;
}

void read_scaling(const ConfigFields& scaling, const RopeModel& model, RopeConfig& rope) {
    // A key next to the scaling wins over the same key in it, as transformers reads Phi-3.
    const auto original = scaling.integer("original_max_position_embeddings", 1, kMaxPositions);
    if (rope.original_max_positions == 0) {
        rope.original_max_positions = original.value_or(model.max_positions);
    }
    rope.factor = read_factor(scaling, rope, model.max_positions);
    if (rope.kind == "yarn" || rope.kind == "longrope") {
        rope.attention_factor = scaling.number("attention_factor", 0.0, kMaxFactor);
    }
    read_own_keys(scaling, model.family, rope);
    if (model.family.has_sparse_mixer) read_mscales(scaling, rope);
    if (rope.kind == "llama3") read_llama3(scaling, rope);
    if (rope.kind == "yarn") read_yarn(scaling, rope);
    if (rope.kind == "longrope") read_longrope(scaling, model.head_dim, rope);
}

}  // namespace

RopeConfig read_rope_config(const ConfigFields& fields, const char* layer_type, double theta,
                            const RopeModel& model, std::vector<std::string>& unused) {
    const bool is_partial = reads_key(model.family, "partial_rotary_factor");
    RopeConfig rope;
    rope.partial_rotary_factor = model.family.partial_rotary;
    rope.theta = theta;
    if (is_partial) {
        rope.partial_rotary_factor =
            fields.number("partial_rotary_factor", 1e-3, 1.0).value_or(rope.partial_rotary_factor);
    }
    // Of MiniMax M2, whose key of the usual name wins.
    const auto rotary = fields.integer("rotary_dim", 1, model.head_dim);
    if (rotary && !fields.has("partial_rotary_factor")) {
        rope.partial_rotary_factor =
            static_cast<double>(*rotary) / static_cast<double>(model.head_dim);
    }
    rope.original_max_positions =
        fields.integer("original_max_position_embeddings", 1, kMaxPositions).value_or(0);
    fields.has("rope_scaling");  // says nothing where it is empty
    const std::optional<Scaling> found = find_scaling(fields, layer_type);
    if (!found) return rope;

    const ConfigFields& scaling = found->fields;
    rope.kind = read_kind(scaling, model.family);
    rope.theta = scaling.number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
    if (is_partial) {
        rope.partial_rotary_factor =
            scaling.number("partial_rotary_factor", 1e-3, 1.0).value_or(rope.partial_rotary_factor);
    }
    if (rope.kind != "default") read_scaling(scaling, model, rope);
    for (const std::string& key : unused_rope_keys(scaling.json(), scaling.asked(), model.family)) {
        unused.push_back(fmt::format("{}.{}", found->name, key));
    }
    return rope;
}

std::string choose_rope_form(const FamilyDefaults& family, nlohmann::json& settings) {
    const auto is_there = [&](const char* key) {
        const auto found = settings.find(key);
        return found != settings.end() && found->is_object() && !found->empty();
    };
    if (!is_there("rope_scaling") || !is_there("rope_parameters")) return {};
    const nlohmann::json scaling = settings["rope_scaling"];
    nlohmann::json& parameters = settings["rope_parameters"];
    if (family.sliding_theta > 0.0) {
        if (!parameters["full_attention"].is_object()) parameters["full_attention"] = {};
        parameters["full_attention"].update(scaling);
        if (family.scales_sliding_rope) {
            if (!parameters["sliding_attention"].is_object()) parameters["sliding_attention"] = {};
            parameters["sliding_attention"].update(scaling);
        }
        settings.erase("rope_scaling");
        return {};
    }
    const bool says_the_same = parameters == scaling;
    settings.erase("rope_parameters");
    return says_the_same ? ""
                         : "rope_scaling is used and nothing of rope_parameters, as transformers "
                           "does where both are there";
}

}  // namespace nvllm
