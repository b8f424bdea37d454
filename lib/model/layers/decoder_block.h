// One block of a decoder: attention and feed-forward, between norms and added to the residual.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "lib/model/channel_flow.h"
#include "lib/model/layers/attention.h"
#include "lib/model/layers/gated_delta_net.h"
#include "lib/model/layers/latent_attention.h"
#include "lib/model/layers/layer_input.h"
#include "lib/model/layers/mamba2.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/layers/moe_mlp.h"
#include "lib/model/layers/norm.h"
#include "lib/model/layers/short_conv.h"

namespace nvllm {

// Experts of the residual whose results are added to those of the MLP.
struct ExpertsBeside {
    Norm after_mlp;  // of what the MLP gives
    MoeMlp experts;  // with norms of what it reads
    Norm after;      // of what the experts give
};

// A layer with a state.
using StateLayer = std::variant<GatedDeltaNet, Mamba2, ShortConv>;

struct DecoderBlock {
    // Which halves there are: attention or what stands for it, and the feed-forward layer.
    bool has_attention = true;
    bool has_mlp = true;
    std::optional<Norm> attention_norm;  // of what attention reads; empty: it reads the residual
    // `attention`, or instead that of the two others which is there.
    Attention attention;
    std::optional<StateLayer> state_layer;
    // Attention stands beside the state layer, whose state has this number among what is cached;
    // empty: the block's.
    std::optional<int32_t> state_index;
    std::optional<LatentAttention> latent_attention;
    std::optional<Norm> after_attention_norm;  // before the residual is added (Gemma 2, 3)
    std::optional<Norm> mlp_norm;              // alike
    std::variant<Mlp, MoeMlp> mlp;
    std::optional<ExpertsBeside> experts_beside;
    std::optional<Norm> after_mlp_norm;
    // The MLP reads what attention reads, and both are added at once (GPT-J, Cohere). REQUIRES: an
    // attention_norm; no other one.
    bool is_parallel = false;
    float residual_scale = 1.0f;            // on what is added to the residual (Granite)
    std::optional<size_t> rotary;           // which of the model's rotary embeddings; empty: none
    std::optional<LayerInput> layer_input;  // added at last
    float out_scale = 1.0f;                 // on the residual behind it
    std::vector<ChannelFlow> flows;

    // hidden [tokens, hidden], in place. `cos_sin` is that of `rotary`, or null.
    void apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
               const TensorView& hidden) const;
    // What follows where there is a layer_input or an out_scale. vector: [tokens, size].
    void finish(const Context& context, const ConstTensorView& vector,
                const TensorView& hidden) const;
    // The feed-forward half of apply().
    void apply_mlp(const Context& context, const TensorView& hidden) const;

    // In the order in which a step computes them.
    std::vector<const MoeMlp*> expert_layers() const;

    // As Model::is_capturable().
    bool is_capturable() const;
    size_t bytes() const;
    // Of those, of experts; and the sums over ranks that a step takes.
    size_t expert_bytes() const;
    int32_t rank_sums() const;

  private:
    void attend(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const;
};

}  // namespace nvllm
