// A short convolution between two gates (Liquid AI 2025, LFM2): its state is its last inputs.
#pragma once

#include <cstdint>

#include "lib/model/layers/linear_attention.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct ShortConv {
    int64_t channels = 0;
    int64_t taps = 0;
    LinearWeight in;   // [hidden] → gates of what goes in, gates of what comes out, values
    Tensor conv_taps;  // float32 [taps, channels]
    Tensor conv_bias;  // float32 [channels]; may be empty
    LinearWeight out;  // [channels] → [hidden]

    // As GatedDeltaNet::apply().
    void apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
               ops::MatmulOutput how, const TensorView& y) const;

    int64_t state_values() const { return (taps - 1) * channels; }
    size_t bytes() const {
        return in.bytes() + conv_taps.bytes() + conv_bias.bytes() + out.bytes();
    }
};

}  // namespace nvllm
