// The order of ops of a draft head.
#include "lib/model/drafts/draft_head.h"

#include <utility>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "lib/model/families/decoder.h"
#include "lib/model/layers/copy_rows.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// Clears the rows at position 0 of their texts. On a device it waits for the positions.
void mask_first(const Context& context, const ConstTensorView& positions, const TensorView& x) {
    if (context.is_dry_run()) return;
    const auto count = static_cast<size_t>(positions.dim(0));
    const size_t bytes = static_cast<size_t>(x.dim(1)) * dtype_bytes(x.dtype);
    const ComputeDevice device(context);
    std::vector<int32_t> on_host(count);
    device.copy_out(context.stream, on_host.data(), positions.data, count * sizeof(int32_t));
    device.synchronize(context.stream);
    for (size_t row = 0; row < count; ++row) {
        if (on_host[row] != 0) continue;
        device.clear(context.stream, x.rows(static_cast<int64_t>(row), 1).data, bytes);
    }
}

// x, or its norm, to `out`, which may have gaps between rows.
void norm_or_copy(const Context& context, const std::optional<Norm>& norm, const ConstTensorView& x,
                  const TensorView& out) {
    if (norm) {
        norm->apply(context, x, out);
    } else {
        copy_rows(context, x, out);
    }
}

size_t bytes_of(const std::optional<Norm>& norm) { return norm ? norm->bytes() : 0; }

}  // namespace

DraftHead::DraftHead(DraftHeadConfig config, const DraftReading& reading, DraftHeadParts parts)
    : config_(std::move(config)),
      reading_(reading),
      parts_(std::move(parts)),
      groups_(groups_of(parts_.blocks)) {}

ConstTensorView DraftHead::fuse(const Context& context, const ConstTensorView& states) const {
    const int64_t width =
        config_.target_hidden_size * (config_.fuses() ? config_.num_aux_hidden_states : 1);
    NVLLM_CHECK(states.rank == 2 && states.dim(1) == width,
                "a draft head over other states than " + states.describe());
    if (!config_.fuses()) return states;
    const TensorView fused = take_activations(context, {states.dim(0), config_.block.hidden_size});
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView input = states;
    if (parts_.fused_norm || !parts_.state_norms.empty()) {
        const TensorView normed = take_activations(context, {states.dim(0), width});
        norm_or_copy(context, parts_.fused_norm, states, normed);
        for (size_t index = 0; index < parts_.state_norms.size(); ++index) {
            const TensorView state =
                normed.columns(static_cast<int64_t>(index) * config_.target_hidden_size,
                               config_.target_hidden_size);
            parts_.state_norms[index].apply(context, state, state);
        }
        input = normed;
    }
    parts_.fuse.apply(context, input, ops::MatmulOutput::overwrite, fused);
    return fused;
}

void DraftHead::embed(const ForwardContext& batch, const TensorView& out) const {
    ops::embedding(*batch.context, parts_.token_embedding.view(), batch.token_ids, 1.0f, out);
    if (reading_.masks_first_embedding) mask_first(*batch.context, batch.rows.positions, out);
}

void DraftHead::first_block(const ForwardContext& batch, const CosSin& cos_sin,
                            const ConstTensorView& hidden, const TensorView& out) const {
    const Context& context = *batch.context;
    const int64_t width = config_.block.hidden_size;
    const DecoderBlock& block = parts_.blocks.front();
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView both = take_activations(context, {batch.tokens(), 2 * width});
    const TensorView embedding = both.columns(parts_.hidden_first ? width : 0, width);
    const TensorView state = both.columns(parts_.hidden_first ? 0 : width, width);
    embed(batch, embedding);
    if (parts_.embedding_norm) parts_.embedding_norm->apply(context, embedding, embedding);
    norm_or_copy(context, parts_.hidden_norm, hidden, state);
    ConstTensorView input = both;
    if (parts_.join.out() > 0) {
        parts_.join.apply(context, both, ops::MatmulOutput::overwrite, out);
        input = out;
    } else {
        copy_rows(context, config_.norm_before_residual ? ConstTensorView(state) : hidden, out);
    }
    if (parts_.has_first_norm) {
        block.apply(batch, 0, &cos_sin, out);
        return;
    }
    block.attention.apply(batch, 0, &cos_sin, input, ops::MatmulOutput::accumulate, out);
    block.apply_mlp(context, out);
}

TensorView DraftHead::forward(const ForwardContext& batch, const ConstTensorView& hidden) const {
    const Context& context = *batch.context;
    const TensorView out = take_activations(context, {batch.tokens(), config_.block.hidden_size});
    NVLLM_CHECK(hidden.rank == 2 && hidden.dim(0) == out.dim(0) && hidden.dim(1) == out.dim(1),
                "a draft head over other states than " + hidden.describe());
    const ScratchArena::Scope scope(*context.scratch);
    const CosSin cos_sin =
        parts_.rotaries.front().cos_sin(context, batch.rows.positions, batch.rows.rope_choices);
    first_block(batch, cos_sin, hidden, out);
    for (int32_t index = 1; index < num_blocks(); ++index) {
        parts_.blocks[static_cast<size_t>(index)].apply(batch, index, &cos_sin, out);
    }
    if (config_.norm_output) parts_.final_norm->apply(context, out, out);
    return out;
}

TensorView DraftHead::logits(const Context& context, const ConstTensorView& states) const {
    const TensorView logits =
        take_values(context, DType::f32, {states.dim(0), config_.draft_vocab_size});
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView input = states;
    if (parts_.final_norm && !config_.norm_output) {
        const TensorView normed =
            take_activations(context, {states.dim(0), config_.block.hidden_size});
        parts_.final_norm->apply(context, states, normed);
        input = normed;
    }
    parts_.head.apply(context, input, ops::MatmulOutput::overwrite, logits);
    return logits;
}

size_t DraftHead::weight_bytes() const {
    size_t bytes = bytes_of(parts_.fused_norm) + bytes_of(parts_.embedding_norm) +
                   bytes_of(parts_.hidden_norm) + bytes_of(parts_.final_norm) +
                   parts_.fuse.bytes() + parts_.join.bytes();
    if (config_.has_own_embedding) bytes += parts_.token_embedding.bytes();
    if (parts_.owns_head) bytes += parts_.head.bytes();
    for (const Norm& norm : parts_.state_norms) bytes += norm.bytes();
    for (const DecoderBlock& block : parts_.blocks) bytes += block.bytes();
    return bytes;
}

}  // namespace nvllm
