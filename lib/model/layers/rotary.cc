// Angles of a step's positions.
#include "lib/model/layers/rotary.h"

#include <algorithm>

namespace nvllm {

Rotary::Rotary(WeightSource& source, const RopeFrequencies& frequencies)
    : attention_factor_(frequencies.attention_factor) {
    const Tensor values =
        Tensor::allocate(DType::f32, {static_cast<int64_t>(frequencies.inverse.size())});
    std::ranges::copy(frequencies.inverse, values.mutable_view().as<float>());
    inverse_frequencies_ = source.placed(values);
}

RotaryAngles Rotary::angles(const Context& context, const ConstTensorView& positions) const {
    const int64_t half = inverse_frequencies_.view().dim(0);
    const RotaryAngles angles{take_values(context, DType::f32, {positions.dim(0), half}),
                              take_values(context, DType::f32, {positions.dim(0), half})};
    ops::rope_angles(context, positions, inverse_frequencies_.view(), attention_factor_,
                     angles.cosines, angles.sines);
    return angles;
}

size_t Rotary::scratch_bytes(int64_t tokens) const {
    return 2 * scratch_for_values(DType::f32, tokens * inverse_frequencies_.view().dim(0));
}

}  // namespace nvllm
