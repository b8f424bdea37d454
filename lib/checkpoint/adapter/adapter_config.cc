// Keys of PEFT's LoraConfig.
#include "lib/checkpoint/adapter/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/unused_keys.h"
#include "lib/checkpoint/config_fields.h"

namespace nvllm {
namespace {

constexpr double kMaxAlpha = 1e6;

// Kinds of LoRA whose files mean something else than B A x.
constexpr std::array kNotComputed = {
    "use_qalora",      "use_bdlora",        "alora_invocation_tokens", "layer_replication",
    "kasa_config",     "monteclora_config", "trainable_token_indices", "velora_config",
    "megatron_config", "arrow_config"};

// What only training needs, or what the tensors say by themselves.
constexpr auto kInert = std::to_array<HarmlessKey>({
    {"auto_mapping"},      {"corda_config"},    {"ensure_weight_tying"},
    {"eva_config"},        {"exclude_modules"}, {"fan_in_fan_out"},
    {"inference_mode"},    {"layers_pattern"},  {"layers_to_transform"},
    {"loftq_config"},      {"lora_dropout"},    {"lora_ga_config"},
    {"megatron_core"},     {"modules_to_save"}, {"peft_version"},
    {"qalora_group_size"}, {"revision"},        {"target_modules"},
    {"target_parameters"}, {"task_type"},       {"runtime_config"},
});

// Begins of init_lora_weights by which the base model's own weights were changed, unless the
// adapter was converted when it was saved.
constexpr std::array kChangesBase = {"pissa", "olora", "corda"};

bool is_given(const ConfigFields& fields, const char* key) {
    const nlohmann::json* const value = fields.find(key);
    return value != nullptr && *value != false;
}

AdapterBias bias_of(const ConfigFields& fields) {
    const std::string word = fields.text("bias").value_or("none");
    if (word == "none") return AdapterBias::none;
    if (word == "all") return AdapterBias::all;
    if (word == "lora_only") return AdapterBias::lora_only;
    fields.refuse("bias", "none, all and lora_only are known");
}

// In the file's order: the first one that matches counts.
std::vector<AdapterConfig::Pattern> patterns_of(const nlohmann::ordered_json& ordered,
                                                const ConfigFields& fields, const char* key,
                                                double low, double high) {
    std::vector<AdapterConfig::Pattern> patterns;
    const std::optional<ConfigFields> object = fields.object(key);
    if (!object) return patterns;
    for (const auto& [name, value] : ordered.at(key).items()) {
        const std::optional<double> number = object->number(name.c_str(), low, high);
        if (!number) continue;
        patterns.push_back({TargetPattern("re:(.*\\.)?(" + name + ")$"), *number});
    }
    return patterns;
}

void check_init(const ConfigFields& fields) {
    const nlohmann::json* const value = fields.find("init_lora_weights");
    if (value == nullptr || !value->is_string()) return;
    const std::string word = *value;
    for (const char* begin : kChangesBase) {
        if (!word.starts_with(begin)) continue;
        fields.refuse("init_lora_weights",
                      "the base model's weights were changed with it; save the adapter with "
                      "path_initial_model_for_weight_conversion");
    }
}

double value_of(const std::vector<AdapterConfig::Pattern>& patterns, std::string_view module,
                double usual) {
    for (const AdapterConfig::Pattern& pattern : patterns) {
        if (pattern.name.matches_name(module)) return pattern.value;
    }
    return usual;
}

}  // namespace

int64_t AdapterConfig::rank_of(std::string_view module) const {
    return static_cast<int64_t>(value_of(ranks, module, static_cast<double>(rank)));
}

int64_t AdapterConfig::max_rank() const {
    double most = static_cast<double>(rank);
    for (const Pattern& pattern : ranks) most = std::max(most, pattern.value);
    return static_cast<int64_t>(most);
}

double AdapterConfig::scale_of(std::string_view module) const {
    const auto own_rank = static_cast<double>(rank_of(module));
    return value_of(alphas, module, alpha) / (rank_stabilized ? std::sqrt(own_rank) : own_rank);
}

std::filesystem::path adapter_config_path(const std::filesystem::path& folder) {
    return folder / "adapter_config.json";
}

std::filesystem::path adapter_weights_path(const std::filesystem::path& folder) {
    return folder / "adapter_model.safetensors";
}

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
    const std::string file = adapter_config_path(folder).string();
    return parse_adapter_config(read_file(file), file);
}

AdapterConfig parse_adapter_config(const std::string& text, const std::string& file) {
    const nlohmann::json object = parse_json(text, file);
    const ConfigFields fields(object, file);
    if (const std::string kind = fields.text("peft_type").value_or(""); kind != "LORA") {
        fields.refuse("peft_type", "adapters of the kind LORA are computed");
    }
    for (const char* key : kNotComputed) {
        if (is_given(fields, key)) fields.refuse(key, "this kind of LoRA is not computed");
    }
    AdapterConfig config;
    config.base_model = fields.text("base_model_name_or_path").value_or("");
    config.rank = fields.integer("r", 1, kMaxLoraRank).value_or(config.rank);
    config.alpha = fields.number("lora_alpha", -kMaxAlpha, kMaxAlpha).value_or(config.alpha);
    config.rank_stabilized = fields.boolean("use_rslora").value_or(false);
    config.bias = bias_of(fields);
    config.lora_bias = fields.boolean("lora_bias").value_or(false);
    config.dora = fields.boolean("use_dora").value_or(false);
    check_init(fields);
    const auto ordered = nlohmann::ordered_json::parse(text);
    config.ranks = patterns_of(ordered, fields, "rank_pattern", 1.0, kMaxLoraRank);
    config.alphas = patterns_of(ordered, fields, "alpha_pattern", -kMaxAlpha, kMaxAlpha);
    config.unknown_keys = unused_keys(object, fields.asked(), kInert);
    return config;
}

}  // namespace nvllm
