// Loading norms.
#include "lib/model/layers/norm.h"

#include <algorithm>

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
    if (!form.has_weights) return plain_norm(source, size, epsilon, form.kind);
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

Norm plain_norm(WeightSource& source, int64_t size, double epsilon, Norm::Kind kind) {
    const Tensor ones = Tensor::allocate(DType::f32, {size});
    std::fill_n(ones.mutable_view().as<float>(), size, 1.0f);
    Norm norm;
    norm.kind = kind;
    norm.weight = source.placed(ones);
    norm.epsilon = static_cast<float>(epsilon);
    return norm;
}

}  // namespace nvllm
