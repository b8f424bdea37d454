// Comparison of configs and tensors.
#include "lib/view/checkpoint_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/checkpoint.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;

struct StoredTensor {
    std::shared_ptr<const SafetensorsFile> file;
    const SafetensorsEntry* entry = nullptr;

    std::span<const std::byte> bytes() const {
        return file->bytes().subspan(entry->begin, entry->end - entry->begin);
    }
};
using Tensors = std::map<std::string, StoredTensor>;

Tensors tensors_of(const std::filesystem::path& path) {
    std::vector<std::shared_ptr<const SafetensorsFile>> files;
    if (std::filesystem::is_directory(path)) {
        const Checkpoint checkpoint = Checkpoint::open(path);
        files.assign(checkpoint.files().begin(), checkpoint.files().end());
    } else {
        files.push_back(std::make_shared<SafetensorsFile>(path));
    }
    Tensors tensors;
    for (const auto& file : files) {
        for (const SafetensorsEntry& entry : file->entries()) {
            tensors.emplace(entry.name, StoredTensor{file, &entry});
        }
    }
    return tensors;
}

std::optional<Json> config_of(const std::filesystem::path& path) {
    const std::filesystem::path file = path / "config.json";
    if (!std::filesystem::is_regular_file(file)) return std::nullopt;
    return parse_json(read_file(file, kMaxConfigBytes), file.string());
}

// Leaves by their path; lists are leaves.
void flatten(const Json& json, const std::string& path,
             std::map<std::string, std::string>& leaves) {
    if (!json.is_object() || json.empty()) {
        leaves[path] = write_json(json);
        return;
    }
    for (const auto& [key, value] : json.items()) {
        flatten(value, path.empty() ? key : path + "." + key, leaves);
    }
}

std::vector<ConfigDifference> compare_configs(const std::filesystem::path& one,
                                              const std::filesystem::path& other) {
    std::map<std::string, std::string> leaves;
    std::map<std::string, std::string> other_leaves;
    const auto config = config_of(one);
    const auto other_config = config_of(other);
    if (!config && !other_config) return {};
    if (config) flatten(*config, "", leaves);
    if (other_config) flatten(*other_config, "", other_leaves);
    std::vector<ConfigDifference> differences;
    for (const auto& [key, value] : leaves) {
        const auto found = other_leaves.find(key);
        if (found == other_leaves.end()) {
            differences.push_back({key, value, ""});
        } else if (found->second != value) {
            differences.push_back({key, value, found->second});
        }
    }
    for (const auto& [key, value] : other_leaves) {
        if (!leaves.contains(key)) differences.push_back({key, "", value});
    }
    return differences;
}

template <typename T>
double value_at(const std::byte* bytes, size_t index) {
    T value{};
    std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<double>(value);
    } else {
        return static_cast<double>(static_cast<float>(value));
    }
}

using ValueAt = double (*)(const std::byte*, size_t);

// Null: no values that could be subtracted are known for the type.
ValueAt reader_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return value_at<float>;
        case DType::f16:
            return value_at<Float16>;
        case DType::bf16:
            return value_at<BFloat16>;
        case DType::f64:
            return value_at<double>;
        case DType::i64:
            return value_at<int64_t>;
        case DType::i32:
            return value_at<int32_t>;
        case DType::i16:
            return value_at<int16_t>;
        case DType::i8:
            return value_at<int8_t>;
        case DType::u64:
            return value_at<uint64_t>;
        case DType::u32:
            return value_at<uint32_t>;
        case DType::u16:
            return value_at<uint16_t>;
        case DType::u8:
            return value_at<uint8_t>;
        default:
            return nullptr;
    }
}

void compare_element(double one, double other, ValueDifference& difference) {
    if (one == other || (std::isnan(one) && std::isnan(other))) return;
    ++difference.num_different;
    if (std::isnan(one) || std::isnan(other)) {
        difference.has_nan = true;
        return;
    }
    const double absolute = std::abs(one - other);
    const double size = std::max(std::abs(one), std::abs(other));
    difference.max_absolute = std::max(difference.max_absolute, absolute);
    if (std::isfinite(absolute)) {
        difference.max_relative = std::max(difference.max_relative, absolute / size);
    }
}

// REQUIRES: equal shapes.
ValueDifference compare_values(const StoredTensor& one, const StoredTensor& other) {
    ValueDifference difference;
    const auto bytes = one.bytes();
    const auto other_bytes = other.bytes();
    const bool same_type = one.entry->dtype == other.entry->dtype;
    difference.bytes_equal =
        same_type && std::memcmp(bytes.data(), other_bytes.data(), bytes.size()) == 0;
    if (difference.bytes_equal) return difference;
    const ValueAt read = reader_of(one.entry->dtype);
    const ValueAt read_other = reader_of(other.entry->dtype);
    difference.comparable = read != nullptr && read_other != nullptr;
    if (!difference.comparable) return difference;
    const size_t count = bytes.size() / dtype_bytes(one.entry->dtype);
    for (size_t i = 0; i < count; ++i) {
        compare_element(read(bytes.data(), i), read_other(other_bytes.data(), i), difference);
    }
    return difference;
}

bool same_shape(const SafetensorsEntry& one, const SafetensorsEntry& other) {
    return one.rank == other.rank &&
           std::equal(one.shape.begin(), one.shape.begin() + one.rank, other.shape.begin());
}

void compare_tensor(const std::string& name, const StoredTensor& one, const StoredTensor& other,
                    bool values, CheckpointDifference& difference) {
    TensorDifference row{name, one.entry->describe(), other.entry->describe(), false, {}};
    const bool shapes = same_shape(*one.entry, *other.entry);
    row.same_kind = shapes && one.entry->dtype == other.entry->dtype;
    if (values && shapes) row.values = compare_values(one, other);
    if (row.same_kind && (!row.values || row.values->bytes_equal)) return;
    difference.tensors.push_back(std::move(row));
}

}  // namespace

CheckpointDifference compare_checkpoints(const std::filesystem::path& one,
                                         const std::filesystem::path& other, bool values) {
    CheckpointDifference difference;
    difference.one = one.string();
    difference.other = other.string();
    difference.compared_values = values;
    difference.config = compare_configs(one, other);
    const Tensors tensors = tensors_of(one);
    const Tensors other_tensors = tensors_of(other);
    for (const auto& [name, tensor] : tensors) {
        const auto found = other_tensors.find(name);
        if (found == other_tensors.end()) {
            difference.only_in_one.push_back(name);
            continue;
        }
        ++difference.num_in_both;
        compare_tensor(name, tensor, found->second, values, difference);
    }
    for (const auto& [name, tensor] : other_tensors) {
        if (!tensors.contains(name)) difference.only_in_other.push_back(name);
    }
    return difference;
}

}  // namespace nvllm::view
