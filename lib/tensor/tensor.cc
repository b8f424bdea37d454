// Allocation of tensors.
#include "lib/tensor/tensor.h"

#include <string>
#include <utility>

namespace nvllm {
namespace {

size_t bytes_of(const ViewLayout& layout) {
    return static_cast<size_t>(layout.numel()) * dtype_bytes(layout.dtype);
}

}  // namespace

Tensor Tensor::own(DeviceMemory memory, const ViewLayout& layout) {
    Tensor tensor;
    tensor.view_ = ConstTensorView(memory.get(), layout);
    tensor.storage_ = std::shared_ptr<std::byte[]>(std::move(memory));
    tensor.writable_ = true;
    return tensor;
}

Tensor Tensor::allocate(DType dtype, std::initializer_list<int64_t> shape,
                        const ComputeDevice& device) {
    const ViewLayout layout = ViewLayout::dense(dtype, shape, device.id());
    return own(device.allocate(bytes_of(layout)), layout);
}

Tensor Tensor::allocate(const ViewLayout& like, const ComputeDevice& device) {
    ViewLayout layout = like;
    layout.device = device.id();
    int64_t stride = 1;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
        layout.strides[static_cast<size_t>(axis)] = stride;
        stride *= layout.dim(axis);
    }
    return own(device.allocate(bytes_of(layout)), layout);
}

Tensor Tensor::allocate_host(DType dtype, std::initializer_list<int64_t> shape,
                             const ComputeDevice& device) {
    const ViewLayout layout = ViewLayout::dense(dtype, shape);
    return own(device.allocate_host(bytes_of(layout)), layout);
}

Tensor Tensor::borrow(const ConstTensorView& view, std::shared_ptr<const void> owner) {
    Tensor tensor;
    tensor.view_ = view;
    tensor.storage_ = std::move(owner);
    return tensor;
}

TensorView Tensor::mutable_view() const {
    NVLLM_CHECK(writable_, "a borrowed tensor is read-only");
    return {const_cast<void*>(view_.data), view_};
}

size_t Tensor::bytes() const { return empty() ? 0 : bytes_of(view_); }

}  // namespace nvllm
