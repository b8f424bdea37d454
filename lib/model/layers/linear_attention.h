// What layers with linear attention have in common: sizes, and where their states lie.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/ops/linear_attention.h"
#include "lib/model/model.h"

namespace nvllm {

struct LinearAttentionSizes {
    int64_t key_heads = 0;
    int64_t heads = 0;  // of values and of the state; a multiple of key_heads
    int64_t key_dim = 0;
    int64_t value_dim = 0;
    int64_t taps = 0;  // of the convolution

    int64_t keys() const { return key_heads * key_dim; }
    int64_t values() const { return heads * value_dim; }
    // Convolved together: queries, keys, values.
    int64_t channels() const { return 2 * keys() + values(); }
    // Float32 values of a sequence's state: the last inputs of the convolution, then a matrix for
    // each head.
    int64_t conv_state() const { return (taps - 1) * channels(); }
    int64_t state() const { return conv_state() + heads * key_dim * value_dim; }
};

// The parts of the states that one layer has of all slots, and which of them the batch's sequences
// have.
struct LayerStates {
    ops::StateRows rows;
    TensorView of_conv;   // float32 [slots, taps - 1, channels]
    TensorView of_heads;  // float32 [slots, heads, key_dim, value_dim]
};

inline LayerStates states_of_layer(const ForwardContext& batch, int32_t index,
                                   const LinearAttentionSizes& sizes) {
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    const TensorView& state = layer.state;
    // Columns from `first` on of each slot's state.
    const auto part = [&](int64_t first, std::initializer_list<int64_t> shape) {
        // In a dry run there is no memory.
        float* const begin = state.data == nullptr ? nullptr : state.as<float>() + first;
        TensorView view(begin, ViewLayout::dense(DType::f32, shape, state.device));
        view.strides[0] = state.stride(0);
        return view;
    };
    const int64_t slots = state.dim(0);
    return {{batch.query_start_loc, batch.seq_lens,
             batch.groups[static_cast<size_t>(layer.group)].block_tables},
            part(0, {slots, sizes.taps - 1, sizes.channels()}),
            part(sizes.conv_state(), {slots, sizes.heads, sizes.key_dim, sizes.value_dim})};
}

}  // namespace nvllm
