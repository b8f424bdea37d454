// A normalisation with its weights.
#pragma once

#include <string>

#include "kernels/context.h"
#include "kernels/ops/norm.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

struct Norm {
    enum class Kind : uint8_t { rms, layer };

    Kind kind = Kind::rms;
    Tensor weight;  // [size], stored precision
    Tensor bias;    // layer norms only; may be empty
    float epsilon = 1e-6f;
    float weight_offset = 0.0f;

    // x, out: float32 [tokens, size] or [tokens, heads, size]; may be the same view.
    void apply(const Context& context, const ConstTensorView& x, const TensorView& out) const {
        if (kind == Kind::layer) {
            ops::layer_norm(context, x, weight.view(), bias.view(), epsilon, out);
        } else {
            ops::rms_norm(context, x, weight.view(), {epsilon, weight_offset}, out);
        }
    }
    size_t bytes() const { return weight.bytes() + bias.bytes(); }
};

// NAME.weight [size].
inline Norm load_rms_norm(WeightSource& source, const std::string& name, int64_t size,
                          double epsilon, float weight_offset = 0.0f) {
    Norm norm;
    norm.weight = source.read_placed(name + ".weight", {size}, WeightRole::norm);
    norm.epsilon = static_cast<float>(epsilon);
    norm.weight_offset = weight_offset;
    return norm;
}

// NAME.weight and NAME.bias [size].
inline Norm load_layer_norm(WeightSource& source, const std::string& name, int64_t size,
                            double epsilon) {
    Norm norm = load_rms_norm(source, name, size, epsilon);
    norm.kind = Norm::Kind::layer;
    norm.bias = source.read_placed(name + ".bias", {size}, WeightRole::bias);
    return norm;
}

// How a family normalises hidden states, and how it stores that.
struct NormForm {
    Norm::Kind kind = Norm::Kind::rms;
    bool bias = false;           // of layer norms
    bool has_weights = true;     // false: nothing is stored
    float weight_offset = 0.0f;  // weights are stored less this
};

// A norm of any form. Layer norms that are stored less an offset become float32, with it.
Norm load_norm(WeightSource& source, const std::string& name, int64_t size, double epsilon,
               const NormForm& form);

// One without weights, which are all 1 then.
Norm plain_norm(WeightSource& source, int64_t size, double epsilon,
                Norm::Kind kind = Norm::Kind::rms);

}  // namespace nvllm
