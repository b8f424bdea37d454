// Two checkpoints side by side: configs, lists of tensors, and values when asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nvllm::view {

struct ConfigDifference {
    std::string key;  // with dots: "rope_scaling.factor"
    std::string one;  // as JSON; empty: not there
    std::string other;
};

struct ValueDifference {
    bool bytes_equal = false;
    int64_t num_different = 0;  // elements; not counted where a type has no values to compare
    double max_absolute = 0.0;
    double max_relative = 0.0;  // |a - b| / max(|a|, |b|)
    bool comparable = true;     // whether values were compared, not bytes alone
    bool has_nan = false;       // a NaN on one side only
};

struct TensorDifference {
    std::string name;
    std::string one;  // "bfloat16[32, 64]"
    std::string other;
    bool same_kind = false;  // type and shape
    std::optional<ValueDifference> values;
};

struct CheckpointDifference {
    std::string one;
    std::string other;
    std::vector<ConfigDifference> config;
    std::vector<std::string> only_in_one;  // tensors
    std::vector<std::string> only_in_other;
    std::vector<TensorDifference> tensors;  // in both, and not the same as far as was looked
    int64_t num_in_both = 0;
    bool compared_values = false;

    bool equal() const {
        return config.empty() && only_in_one.empty() && only_in_other.empty() && tensors.empty();
    }
};

// Each is a model's folder or a .safetensors file. Values are read as they lie, a piece at a time.
// Throws not_found or bad_data.
CheckpointDifference compare_checkpoints(const std::filesystem::path& one,
                                         const std::filesystem::path& other, bool values);

std::string difference_text(const CheckpointDifference& difference);
// "nvllm-inspect.diff/1".
nlohmann::ordered_json difference_json(const CheckpointDifference& difference);

}  // namespace nvllm::view
