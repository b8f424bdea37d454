// What layers with linear attention have in common: sizes, and where their states lie.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/ops/linear_attention.h"
#include "lib/model/model.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

struct LinearAttentionSizes {
    int64_t key_heads = 0;
    int64_t heads = 0;  // of values and of the state; a multiple of key_heads
    int64_t key_dim = 0;
    int64_t value_dim = 0;
    int64_t taps = 0;       // of the convolution
    int64_t gate_rank = 0;  // of the vectors that gates are made of (Kimi Linear); 0: of the input

    int64_t keys() const { return key_heads * key_dim; }
    int64_t values() const { return heads * value_dim; }
    // Convolved together: queries, keys, values.
    int64_t channels() const { return 2 * keys() + values(); }
    // Float32 values of a sequence's state: the last inputs of the convolution, then a matrix for
    // each head.
    int64_t conv_state() const { return (taps - 1) * channels(); }
    int64_t state() const { return conv_state() + heads * key_dim * value_dim; }
};

// The slots of the batch's sequences in the group of a layer.
inline ops::StateRows state_rows(const ForwardContext& batch, const KvLayer& layer) {
    return {batch.query_start_loc, batch.seq_lens,
            batch.groups[static_cast<size_t>(layer.group)].block_tables};
}

// Values from `first` on of the state that a layer has in each slot; `shape`: [slots, ...].
inline TensorView part_of_states(const KvLayer& layer, int64_t first,
                                 std::initializer_list<int64_t> shape) {
    // In a dry run there is no memory.
    float* const begin = layer.state.data == nullptr ? nullptr : layer.state.as<float>() + first;
    TensorView part(begin, ViewLayout::dense(DType::f32, shape, layer.state.device));
    part.strides[0] = layer.state.stride(0);
    return part;
}

// The parts that linear attention has.
struct LayerStates {
    LayerStates(const ForwardContext& batch, int32_t index, const LinearAttentionSizes& sizes)
        : LayerStates(batch.kv[static_cast<size_t>(index)], sizes) {}

    TensorView of_conv;   // float32 [slots, taps - 1, channels]
    TensorView of_heads;  // float32 [slots, heads, key_dim, value_dim]

  private:
    LayerStates(const KvLayer& layer, const LinearAttentionSizes& sizes)
        : of_conv(part_of_states(layer, 0, {layer.state.dim(0), sizes.taps - 1, sizes.channels()})),
          of_heads(
              part_of_states(layer, sizes.conv_state(),
                             {layer.state.dim(0), sizes.heads, sizes.key_dim, sizes.value_dim})) {}
};

// ops::causal_conv1d() and ops::linear_attention() over the states of layer `index`, noted where
// the batch has a journal.
void convolve(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
              const ops::ConvWeights& weights, const TensorView& states, const TensorView& out);
void attend_states(const ForwardContext& batch, int32_t index,
                   const ops::LinearAttentionInput& input, const TensorView& states,
                   const TensorView& out);

// A view of rank 0 where there is no tensor.
inline ConstTensorView view_or_none(const Tensor& tensor) {
    return tensor.bytes() > 0 ? ConstTensorView(tensor.view()) : ConstTensorView{};
}

}  // namespace nvllm
