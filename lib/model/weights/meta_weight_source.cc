// Tensors that have a layout and no memory.
#include "lib/model/weights/meta_weight_source.h"

namespace nvllm {

Tensor meta_tensor(DType dtype, std::initializer_list<int64_t> shape, Device device) {
    static const std::byte nothing{};
    return Tensor::borrow(ConstTensorView(&nothing, dtype, shape, device), nullptr);
}

Tensor MetaWeightSource::read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                                    WeightRole, const TensorSlice&) {
    tensors_.push_back({name, stored_type_, shape});
    return meta_tensor(stored_type_, shape);
}

}  // namespace nvllm
