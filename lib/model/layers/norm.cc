// Loading norms.
#include "lib/model/layers/norm.h"

namespace nvllm {
namespace {

// A float32 copy with `offset` added.
Tensor raised(WeightSource& source, const Tensor& stored, float offset) {
    const Tensor values = as_float32(source, stored);
    if (!source.has_values()) return values;
    const int64_t size = values.view().dim(0);
    Tensor sum = Tensor::allocate(DType::f32, {size});
    float* const to = sum.mutable_view().as<float>();
    for (int64_t i = 0; i < size; ++i) to[i] = values.view().as<float>()[i] + offset;
    return sum;
}

}  // namespace

Norm load_norm(WeightSource& source, const std::string& name, int64_t size, double epsilon,
               const NormForm& form) {
    if (form.kind == Norm::Kind::rms) {
        return load_rms_norm(source, name, size, epsilon, form.weight_offset);
    }
    Norm norm;
    norm.kind = Norm::Kind::layer;
    norm.epsilon = static_cast<float>(epsilon);
    const Tensor weight = source.read(name + ".weight", {size}, WeightRole::norm);
    const bool is_raised = form.weight_offset != 0.0f;
    norm.weight = source.placed(is_raised ? raised(source, weight, form.weight_offset) : weight);
    if (!form.bias) return norm;
    // Of one type with the weights.
    const Tensor bias = source.read(name + ".bias", {size}, WeightRole::bias);
    norm.bias = source.placed(as_type(source, bias, norm.weight.view().dtype));
    return norm;
}

}  // namespace nvllm
