// Cosines and sines of a step's positions.
#include "lib/model/layers/rotary.h"

#include <algorithm>

#include "kernels/ops/rope.h"

namespace nvllm {
namespace {

ConstTensorView first_row(const ConstTensorView& rows) {
    return {rows.data, rows.dtype, {rows.dim(1)}, rows.device};
}

}  // namespace

Rotary::Rotary(WeightSource& source, const RopeFrequencies& frequencies)
    : attention_factor_(frequencies.attention_factor),
      query_beta_(frequencies.query_beta),
      original_positions_(frequencies.original_positions),
      query_offset_(frequencies.query_offset) {
    const auto half = static_cast<int64_t>(frequencies.inverse.size());
    if (half == 0) return;
    const bool has_choice = !frequencies.inverse_within.empty();
    const Tensor values = Tensor::allocate(DType::f32, {has_choice ? 2 : 1, half});
    float* const to = values.mutable_view().as<float>();
    std::ranges::copy(frequencies.inverse, to);
    std::ranges::copy(frequencies.inverse_within, to + half);
    inverse_frequencies_ = source.placed(values);
}

CosSin Rotary::cos_sin(const Context& context, const ConstTensorView& positions,
                       const ConstTensorView& choices) const {
    CosSin cos_sin;
    if (inverse_frequencies_.view().rank > 0) {
        const ConstTensorView frequencies = inverse_frequencies_.view();
        const int64_t half = frequencies.dim(1);
        const bool has_choice = frequencies.dim(0) > 1 && choices.data != nullptr;
        cos_sin.cosines = take_values(context, DType::f32, {positions.dim(0), half});
        cos_sin.sines = take_values(context, DType::f32, {positions.dim(0), half});
        ops::rope_cos_sin(context, positions, has_choice ? frequencies : first_row(frequencies),
                          attention_factor_, cos_sin.cosines, cos_sin.sines,
                          has_choice ? choices : ConstTensorView());
    }
    if (query_beta_ != 0.0f) {
        cos_sin.query_factors = take_values(context, DType::f32, {positions.dim(0)});
        ops::position_factors(context, positions, query_beta_, original_positions_, query_offset_,
                              cos_sin.query_factors);
    }
    return cos_sin;
}

}  // namespace nvllm
