// Tensors that have a layout and no memory.
#include "lib/model/weights/outline_source.h"

namespace nvllm {

Tensor outline_tensor(DType dtype, std::initializer_list<int64_t> shape) {
    static const std::byte nothing{};
    return Tensor::borrow(ConstTensorView(&nothing, dtype, shape), nullptr);
}

Tensor OutlineSource::read(const std::string&, std::initializer_list<int64_t> shape,
                           WeightRole role) {
    // Matrices are converted at load to the product type, unless that is float32, to which any type
    // widens in the kernel.
    const bool converted = role == WeightRole::matrix && product_type() != DType::f32;
    return outline_tensor(converted ? product_type() : stored_type_, shape);
}

}  // namespace nvllm
