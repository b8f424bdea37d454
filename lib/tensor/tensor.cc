// Allocation of tensors.
#include "lib/tensor/tensor.h"

#include <sys/mman.h>

namespace nvllm {

Tensor Tensor::allocate(DType dtype, std::initializer_list<int64_t> shape) {
    Tensor tensor;
    const ViewLayout layout = ViewLayout::dense(dtype, shape);
    const size_t bytes = static_cast<size_t>(layout.numel()) * dtype_bytes(dtype);
    // Whole pages straight from the system: zeroed, aligned, committed when touched, given back
    // when freed.
    const size_t mapped = bytes == 0 ? 1 : bytes;
    void* memory =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw Error(ErrorKind::does_not_fit,
                    "no memory for a tensor of " + std::to_string(bytes) + " bytes");
    }
#ifdef MADV_HUGEPAGE
    ::madvise(memory, mapped, MADV_HUGEPAGE);
#endif
    tensor.storage_ = std::shared_ptr<const void>(
        memory, [mapped](const void* address) { ::munmap(const_cast<void*>(address), mapped); });
    tensor.view_ = ConstTensorView(memory, layout);
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
