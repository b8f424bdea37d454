// Reading and checking tensors of a checkpoint.
#include "lib/model/weights/checkpoint_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "kernels/error.h"
#include "lib/base/memory_info.h"

namespace nvllm {
namespace {

bool is_float(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

bool has_shape(const ConstTensorView& view, std::initializer_list<int64_t> shape) {
    if (static_cast<size_t>(view.rank) != shape.size()) return false;
    int axis = 0;
    for (const int64_t size : shape) {
        if (view.dim(axis++) != size) return false;
    }
    return true;
}

bool is_one_of(DType dtype, std::initializer_list<DType> types) {
    return std::find(types.begin(), types.end(), dtype) != types.end();
}

std::string names_of(std::initializer_list<DType> types) {
    std::vector<const char*> names;
    for (const DType type : types) names.push_back(dtype_name(type));
    return fmt::format("{}", fmt::join(names, " or "));
}

// safetensors files may hold values at odd addresses; ops read whole elements.
Tensor aligned(const Tensor& tensor) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.view().data);
    if (address % dtype_bytes(tensor.view().dtype) == 0) return tensor;
    Tensor copy = Tensor::allocate(tensor.view(), ComputeDevice());
    std::memcpy(copy.mutable_view().data, tensor.view().data, tensor.bytes());
    return copy;
}

}  // namespace

bool CheckpointSource::has(const std::string& name) const {
    return checkpoint_.find(name).has_value();
}

Tensor CheckpointSource::find(const std::string& name, const std::string& expected) const {
    std::optional<Tensor> found = checkpoint_.tensor(name);
    if (found) return *std::move(found);
    throw Error(ErrorKind::bad_data, fmt::format("{}: has no tensor {}, expected {}",
                                                 checkpoint_.file_of(name), name, expected));
}

Tensor CheckpointSource::keep(const std::string& name, const Tensor& found) {
    read_names_.insert(name);
    return has_values() ? aligned(found) : found;
}

Tensor CheckpointSource::keep_stored(const std::string& name, const Tensor& found) {
    if (has_values()) stored_.emplace_back(found.view().as<std::byte>(), found.bytes());
    return keep(name, found);
}

void CheckpointSource::release_stored() {
    for (const std::span<const std::byte> bytes : stored_) release_mapped_pages(bytes);
    stored_.clear();
}

Tensor CheckpointSource::read(const std::string& name, std::initializer_list<int64_t> shape,
                              WeightRole) {
    const std::string expected = ViewLayout::dense(product_type(), shape).describe();
    const Tensor found = find(name, expected);
    if (!nvllm::has_shape(found.view(), shape) || !is_float(found.view().dtype)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {} or another float type; do the "
                        "weights belong to this config.json?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    return keep(name, found);
}

Tensor CheckpointSource::read_stored(const std::string& name, std::initializer_list<int64_t> shape,
                                     std::initializer_list<DType> types) {
    const std::string expected =
        fmt::format("{}{}", names_of(types), fmt::format("[{}]", fmt::join(shape, ", ")));
    const Tensor found = find(name, expected);
    if (!nvllm::has_shape(found.view(), shape) || !is_one_of(found.view().dtype, types)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {}; does quantization_config belong "
                        "to these weights?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    return keep_stored(name, found);
}

Tensor CheckpointSource::read_stored_flat(const std::string& name, int64_t count,
                                          std::initializer_list<DType> types) {
    const std::string expected = fmt::format("{} values of {}", count, names_of(types));
    const Tensor found = find(name, expected);
    if (found.view().numel() != count || !is_one_of(found.view().dtype, types)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {}; does quantization_config belong "
                        "to these weights?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    return keep_stored(name, found);
}

bool CheckpointSource::has_shape(const std::string& name,
                                 std::initializer_list<int64_t> shape) const {
    const std::optional<ConstTensorView> found = checkpoint_.find(name);
    return found && nvllm::has_shape(*found, shape);
}

bool CheckpointSource::keeps_dense(const std::string& linear) const {
    for (const char* suffix : {".weight", ".compressed"}) {
        const std::optional<ConstTensorView> found = checkpoint_.find(linear + suffix);
        if (found && is_float(found->dtype)) return true;
    }
    return false;
}

void CheckpointSource::pass_over(const std::string& linear) {
    for (const std::string_view name : checkpoint_.names()) {
        if (name.starts_with(linear) && name.substr(linear.size()).starts_with('.')) {
            read_names_.emplace(name);
        }
    }
}

std::vector<std::string> CheckpointSource::unread() const {
    std::vector<std::string> names;
    for (const std::string_view name : checkpoint_.names()) {
        if (!read_names_.contains(name)) names.emplace_back(name);
    }
    return names;
}

}  // namespace nvllm
