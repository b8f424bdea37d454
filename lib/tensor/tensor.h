// Owned memory with a view on it.
#pragma once

#include <initializer_list>
#include <memory>

#include "kernels/device.h"
#include "kernels/view.h"

namespace nvllm {

// A tensor keeps its storage alive; copies share it. The storage may be memory of its own, or
// belong to something else (a mapped checkpoint) that the tensor then keeps alive. Not written
// through after sharing.
class Tensor {
  public:
    Tensor() = default;

    // Fresh memory: on the CPU whole zeroed pages of the operating system (kernels/page_memory.h).
    // Throws does_not_fit when there is none.
    static Tensor allocate(DType dtype, std::initializer_list<int64_t> shape,
                           const ComputeDevice& device = {});
    // The same of a layout's type and shape, without gaps.
    static Tensor allocate(const ViewLayout& layout, const ComputeDevice& device);
    // Host memory that copies from and to the device need not wait for.
    static Tensor allocate_host(DType dtype, std::initializer_list<int64_t> shape,
                                const ComputeDevice& device);
    // Memory of another owner, kept alive by `owner`; read-only.
    static Tensor borrow(const ConstTensorView& view, std::shared_ptr<const void> owner);

    bool empty() const { return view_.data == nullptr; }
    const ConstTensorView& view() const { return view_; }
    // REQUIRES: made by allocate().
    TensorView mutable_view() const;
    size_t bytes() const;

  private:
    static Tensor own(DeviceMemory memory, const ViewLayout& layout);

    ConstTensorView view_;
    std::shared_ptr<const void> storage_;
    bool writable_ = false;
};

}  // namespace nvllm
