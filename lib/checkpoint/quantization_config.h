// How a checkpoint says that its linears are quantized: compressed-tensors' quantization_config,
// and what AWQ, GPTQ and block-wise FP8 say, in the same words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

enum class NumberKind : uint8_t { integer, floating };

// What shares one scale.
enum class QuantizationStrategy : uint8_t {
    tensor,
    channel,       // a row of weights
    group,         // group_size values along the input
    block,         // of `block` rows and columns
    token,         // a row of activations
    tensor_group,  // groups with float8 scales under one scale of the tensor (NVFP4)
    attn_head
};

// When activations get their scales: from the file, or from the values themselves; `local`: those
// of groups from the values, the tensor's from the file.
enum class DynamicScales : uint8_t { no, yes, local };

// The order in which columns were quantized; only `group` leaves a trace in the file (g_idx).
enum class ActivationOrder : uint8_t { none, weight, group };

struct QuantizationBlock {
    int64_t rows = 0;
    int64_t columns = 0;
    bool operator==(const QuantizationBlock&) const = default;
};

// The share that compressed-tensors' observer "minmax" moves by where the file gives none.
inline constexpr double kMovingRangeShare = 0.01;

// compressed-tensors' argument object: how one operand is quantized.
struct QuantizationArguments {
    int bits = 8;
    NumberKind kind = NumberKind::integer;
    bool symmetric = true;
    QuantizationStrategy strategy = QuantizationStrategy::tensor;
    std::optional<int64_t> group_size;       // group, tensor_group
    std::optional<QuantizationBlock> block;  // block
    DynamicScales dynamic = DynamicScales::no;
    ActivationOrder actorder = ActivationOrder::none;
    bool scales_are_powers_of_two = false;  // MX: one byte of exponent for each group
    // Where calibration finds the range: a mean of the samples' ranges that moves by this share
    // with each ("minmax"; 1: the last one's, "memoryless_minmax"), or the range of all samples
    // ("static_minmax": empty).
    std::optional<double> range_share = kMovingRangeShare;
    bool operator==(const QuantizationArguments&) const = default;
};

// Has the range found as the observer of this name does; false, and nothing changes, for observers
// other than the three of range_share.
bool set_observer(QuantizationArguments& arguments, std::string_view name);

// What kv_cache_scheme says of keys and values in float8_e4m3 with one scale of a layer's keys and
// one of its values, k_scale and v_scale in the checkpoint.
inline QuantizationArguments float8_cache_scheme() {
    QuantizationArguments arguments;
    arguments.kind = NumberKind::floating;
    arguments.range_share.reset();
    return arguments;
}

// Whether keys and values are meant to be kept as float8_cache_scheme() says, however their ranges
// were found.
bool is_float8_cache(const QuantizationArguments& arguments);

// Storage formats by compressed-tensors' names ("pack-quantized", ...), and those of others: "awq",
// "awq-gemv", "awq-gemv-fast", "gptq", "gptq_v2", "bitsandbytes-4bit", "bitsandbytes-8bit",
// "fp8-block", "nvfp4-modelopt". Empty only in a preset, where it follows from the arguments.
struct QuantizationScheme {
    std::string format;
    std::optional<QuantizationArguments> weights;
    std::optional<QuantizationArguments> input_activations;
    std::optional<QuantizationArguments> output_activations;
    bool operator==(const QuantizationScheme&) const = default;
};

// The storage format that compressed-tensors would choose for these arguments. REQUIRES: weights.
std::string_view inferred_format(const QuantizationScheme& scheme);

// Linears by class ("Linear"), by whole name, or by "re:" and a regular expression that the name
// begins with, and what they are stored as.
struct QuantizationGroup {
    std::vector<std::string> targets;
    QuantizationScheme scheme;
    bool operator==(const QuantizationGroup&) const = default;
};

// Zeros in the weights, as old compressed-tensors files kept them.
struct SparsityConfig {
    std::string format;     // "dense", "sparse-24-bitmask", ...
    std::string structure;  // "2:4", "unstructured"
    double global_sparsity = 0.0;
    std::vector<std::string> targets;
    std::vector<std::string> ignore;
    bool operator==(const SparsityConfig&) const = default;
};

class TargetMatcher;

class QuantizationConfig {
  public:
    // As the writer of a checkpoint sets them; the groups' formats may be empty. Throws bad_data
    // for a pattern that is none.
    struct Fields {
        std::string method = "compressed-tensors";  // quant_method
        std::vector<QuantizationGroup> groups;
        std::vector<std::string> ignore;
        std::optional<QuantizationArguments> kv_cache_scheme;
        std::optional<SparsityConfig> sparsity;
        // Keys that the reader passed over although they may change answers ("config_groups.a.b"),
        // and what else is not heeded, in words for the user.
        std::vector<std::string> unused_keys;
        std::vector<std::string> notes;
    };
    explicit QuantizationConfig(Fields fields);

    const std::string& method() const { return fields_.method; }
    const std::vector<QuantizationGroup>& groups() const { return fields_.groups; }
    const std::vector<std::string>& ignore() const { return fields_.ignore; }
    const std::optional<QuantizationArguments>& kv_cache_scheme() const {
        return fields_.kv_cache_scheme;
    }
    bool has_float8_cache() const {
        return fields_.kv_cache_scheme && is_float8_cache(*fields_.kv_cache_scheme);
    }
    const std::optional<SparsityConfig>& sparsity() const { return fields_.sparsity; }
    const std::vector<std::string>& unused_keys() const { return fields_.unused_keys; }
    const std::vector<std::string>& notes() const { return fields_.notes; }

    // How the linear of this name ("model.layers.0.mlp.up_proj"), or the module of another class
    // ("Embedding"), is stored; null: dense. An exact
    // name wins over a pattern, a pattern over a class, and of two groups with the same target the
    // later; what `ignore` matches is dense. Valid as long as this.
    const QuantizationScheme* scheme_for(std::string_view linear_name,
                                         std::string_view class_name = "Linear") const;
    // Whether sparsity() says that the linear of this name is stored as sparse-24-bitmask.
    bool keeps_two_of_four(std::string_view linear_name) const;
    // The format of all, "mixed-precision" where groups differ.
    std::string format() const;

  private:
    Fields fields_;
    std::shared_ptr<const TargetMatcher> matcher_;
    std::shared_ptr<const TargetMatcher> sparse_;  // null: no linear is stored so
};

// What config.json (its quantization_config, or compression_config) says, or quantize_config.json
// or hf_quant_config.json beside it. Empty: the weights are not quantized. Throws bad_data naming
// file, key and what is allowed.
std::optional<QuantizationConfig> read_quantization_config(const std::filesystem::path& directory);
// What of those is not heeded, unused_keys() included, in words; empty where there are no such
// settings or they cannot be read.
std::vector<std::string> quantization_notes(const std::filesystem::path& directory);
// The same of the value of "quantization_config"; `source_name` begins messages.
QuantizationConfig parse_quantization_config(const nlohmann::json& section,
                                             const std::string& source_name);

// The value of "quantization_config" as the library that defined the method reads it. REQUIRES:
// method() "compressed-tensors"; or "awq" or "gptq" with one group, of all linears that `ignore`
// does not name.
nlohmann::ordered_json quantization_config_json(const QuantizationConfig& config);

// A scheme under the name that users give it.
struct PresetScheme {
    std::string name;  // "W4A16"
    QuantizationScheme scheme;
};

// W4A16, W8A8, FP8_DYNAMIC, NVFP4, ...: llm-compressor's names.
std::span<const PresetScheme> preset_schemes();
// Any case. Throws usage that names the nearest known one.
const PresetScheme& find_preset_scheme(std::string_view name);
// What people call a scheme: "W4A16", "W4A16, groups of 64", "awq (W4A16_ASYM)"; of arguments that
// no preset has, the format and the bits.
std::string scheme_name(const QuantizationScheme& scheme);

}  // namespace nvllm
