// Angles of a step's positions.
#include "lib/model/layers/rotary.h"

#include <algorithm>

namespace nvllm {

Rotary::Rotary(const RopeFrequencies& frequencies)
    : inverse_frequencies_(
          Tensor::allocate(DType::f32, {static_cast<int64_t>(frequencies.inverse.size())})),
      attention_factor_(frequencies.attention_factor) {
    std::copy(frequencies.inverse.begin(), frequencies.inverse.end(),
              inverse_frequencies_.mutable_view().as<float>());
}

RotaryAngles Rotary::angles(const Context& context, const ConstTensorView& positions) const {
    const int64_t half = inverse_frequencies_.view().dim(0);
    const RotaryAngles angles{take_activations(context, {positions.dim(0), half}),
                              take_activations(context, {positions.dim(0), half})};
    ops::rope_angles(context, positions, inverse_frequencies_.view(), attention_factor_,
                     angles.cosines, angles.sines);
    return angles;
}

size_t Rotary::scratch_bytes(int64_t tokens) const {
    return 2 * scratch_for_activations(tokens * inverse_frequencies_.view().dim(0));
}

}  // namespace nvllm
