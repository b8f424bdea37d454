// Allocation of tensors.
#include "lib/tensor/tensor.h"

#include <string>
#include <utility>

#include "kernels/page_memory.h"

namespace nvllm {

Tensor Tensor::allocate(DType dtype, std::initializer_list<int64_t> shape) {
    Tensor tensor;
    const ViewLayout layout = ViewLayout::dense(dtype, shape);
    const size_t bytes = static_cast<size_t>(layout.numel()) * dtype_bytes(dtype);
    PageMemory memory = take_pages(bytes);
    if (memory == nullptr) {
        throw Error(ErrorKind::does_not_fit,
                    "no memory for a tensor of " + std::to_string(bytes) + " bytes");
    }
    tensor.view_ = ConstTensorView(memory.get(), layout);
    tensor.storage_ = std::shared_ptr<std::byte[]>(std::move(memory));
    tensor.writable_ = true;
    return tensor;
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

size_t Tensor::bytes() const {
    return empty() ? 0 : static_cast<size_t>(view_.numel()) * dtype_bytes(view_.dtype);
}

}  // namespace nvllm
