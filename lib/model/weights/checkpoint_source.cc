// Reading and checking tensors of a checkpoint.
#include "lib/model/weights/checkpoint_source.h"

#include <fmt/format.h>

#include <cstring>

#include "kernels/error.h"

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

// safetensors files may hold values at odd addresses; ops read whole elements.
Tensor aligned(const Tensor& tensor, std::initializer_list<int64_t> shape) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.view().data);
    if (address % dtype_bytes(tensor.view().dtype) == 0) return tensor;
    Tensor copy = Tensor::allocate(tensor.view().dtype, shape);
    std::memcpy(copy.mutable_view().data, tensor.view().data, tensor.bytes());
    return copy;
}

}  // namespace

bool CheckpointSource::has(const std::string& name) const {
    return checkpoint_.find(name).has_value();
}

Tensor CheckpointSource::read(const std::string& name, std::initializer_list<int64_t> shape,
                              WeightRole) {
    const std::string expected = ViewLayout::dense(product_type(), shape).describe();
    const std::optional<Tensor> found = checkpoint_.tensor(name);
    if (!found) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: has no tensor {}, expected {}",
                                                     checkpoint_.file_of(name), name, expected));
    }
    if (!has_shape(found->view(), shape) || !is_float(found->view().dtype)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {} or another float type; do the "
                        "weights belong to this config.json?",
                        checkpoint_.file_of(name), name, found->view().describe(), expected));
    }
    read_names_.insert(name);
    return has_values() ? aligned(*found, shape) : *found;
}

std::vector<std::string> CheckpointSource::unread() const {
    std::vector<std::string> names;
    for (const std::string_view name : checkpoint_.names()) {
        if (!read_names_.contains(name)) names.emplace_back(name);
    }
    return names;
}

}  // namespace nvllm
