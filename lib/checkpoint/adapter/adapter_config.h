// What the adapter_config.json of a LoRA adapter says, in PEFT's format (LoraConfig).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lib/checkpoint/target_matcher.h"

namespace nvllm {

inline constexpr int64_t kMaxLoraRank = 256;

// Which biases of the base model an adapter replaces.
enum class AdapterBias : uint8_t { none, all, lora_only };

struct AdapterConfig {
    std::string base_model;  // as it was named where the adapter was made; may be empty
    int64_t rank = 8;
    double alpha = 8.0;
    bool rank_stabilized = false;  // the scale is alpha / sqrt(rank) (Kalajdzievski 2023)
    AdapterBias bias = AdapterBias::none;
    bool lora_bias = false;                 // B has a bias
    bool dora = false;                      // magnitudes of outputs (Liu et al. 2024)
    std::vector<std::string> unknown_keys;  // that may mean something

    // Of the module of this name ("model.layers.0.self_attn.q_proj"): the first pattern that its
    // end matches, else that of all.
    int64_t rank_of(std::string_view module) const;
    // Of all patterns and the rest.
    int64_t max_rank() const;
    // The factor on B A x.
    double scale_of(std::string_view module) const;

    struct Pattern {
        TargetPattern name;
        double value = 0.0;
    };
    std::vector<Pattern> ranks;   // rank_pattern
    std::vector<Pattern> alphas;  // alpha_pattern
};

// The files of an adapter in this folder.
std::filesystem::path adapter_config_path(const std::filesystem::path& folder);
std::filesystem::path adapter_weights_path(const std::filesystem::path& folder);

// `file`: for messages. Throws bad_data for what is no LoRA, for values beyond their limits, and
// for kinds of LoRA that are not computed, by the name of their key.
AdapterConfig parse_adapter_config(const std::string& text, const std::string& file);
// The folder's. Throws the same, and not_found.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);

}  // namespace nvllm
