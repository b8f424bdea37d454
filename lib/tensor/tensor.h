// Owned memory with a view on it.
#pragma once

#include <initializer_list>
#include <memory>

#include "kernels/view.h"

namespace nvllm {

// A tensor keeps its storage alive; copies share it. The storage may be memory of its own, or
// belong to something else (a mapped checkpoint) that the tensor then keeps alive. Not written
// through after sharing.
class Tensor {
  public:
    Tensor() = default;

    // Fresh memory, whole zeroed pages of the operating system (kernels/page_memory.h).
    // Throws does_not_fit when there is none.
    static Tensor allocate(DType dtype, std::initializer_list<int64_t> shape);
    // Memory of somebody else, kept alive by `owner`; read-only.
    static Tensor borrow(const ConstTensorView& view, std::shared_ptr<const void> owner);

    bool empty() const { return view_.data == nullptr; }
    const ConstTensorView& view() const { return view_; }
    // REQUIRES: made by allocate().
    TensorView mutable_view() const;
    size_t bytes() const;

  private:
    ConstTensorView view_;
    std::shared_ptr<const void> storage_;
    bool writable_ = false;
};

}  // namespace nvllm
