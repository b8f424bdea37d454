// The forward pass of decoders, top to bottom.
#include "lib/model/families/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "lib/model/weights/dense.h"

namespace nvllm {
namespace {

CacheLayout state_layout(const StateLayer& state) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    CacheLayout layout;
    layout.kind = CacheLayout::Kind::state;
    layout.state_bytes =
        std::visit([](const auto& layer) { return layer.state_values(); }, state) * kBytes;
    return layout;
}

CacheLayout attention_layout(const DecoderBlock& block) {
    CacheLayout layout;
    if (block.latent_attention) {
        const LatentAttentionConfig& sizes = block.latent_attention->sizes;
        layout.kind = CacheLayout::Kind::latent;
        layout.kv_heads = 1;
        layout.head_dim = static_cast<int32_t>(sizes.cached());
        layout.value_dim = static_cast<int32_t>(sizes.latent_dim);
        return layout;
    }
    layout.kv_heads = static_cast<int32_t>(block.attention.kv_heads);
    layout.head_dim = static_cast<int32_t>(block.attention.head_dim);
    // What is computed in one step has all its positions there.
    if (block.attention.options.causal) layout.window = block.attention.options.window;
    return layout;
}

// Into the group of its geometry.
void add_layer(const CacheLayout& layout, int32_t layer, std::vector<CacheLayout>& groups) {
    auto group = std::ranges::find_if(
        groups, [&](const CacheLayout& known) { return known.same_geometry(layout); });
    if (group == groups.end()) group = groups.insert(groups.end(), layout);
    group->layers.push_back(layer);
}

}  // namespace

std::vector<CacheLayout> groups_of(const std::vector<DecoderBlock>& blocks) {
    std::vector<CacheLayout> groups;
    for (size_t index = 0; index < blocks.size(); ++index) {
        const DecoderBlock& block = blocks[index];
        const auto layer = static_cast<int32_t>(index);
        const bool attends = block.has_attention && (!block.state_layer || block.state_index);
        if (attends && !block.attention.kv_layer) add_layer(attention_layout(block), layer, groups);
        if (!block.state_layer) continue;
        add_layer(state_layout(*block.state_layer), block.state_index.value_or(layer), groups);
    }
    std::stable_partition(groups.begin(), groups.end(),
                          [](const CacheLayout& group) { return !group.is_state(); });
    return groups;
}

namespace {

class Decoder final : public Model {
  public:
    Decoder(const ModelConfig& config, const ModelSettings& settings, DecoderParts parts)
        : config_(config),
          settings_(settings),
          parts_(std::move(parts)),
          groups_(groups_of(parts_.blocks)) {}

    const ModelConfig& config() const override { return config_; }
    const std::vector<CacheLayout>& kv_groups() const override { return groups_; }
    int32_t num_blocks() const override { return static_cast<int32_t>(parts_.blocks.size()); }

    void begin(const ForwardContext& batch) override {
        cos_sin_.clear();
        for (const Rotary& rotary : parts_.rotaries) {
            cos_sin_.push_back(
                rotary.cos_sin(*batch.context, batch.rows.positions, batch.rows.rope_choices));
        }
        // Not in embed(): a block may be computed of hidden states that were kept.
        if (!parts_.layer_inputs) return;
        const Context& context = *batch.context;
        const TensorView embedded =
            take_activations(context, {batch.tokens(), config_.hidden_size});
        ops::embedding(context, parts_.token_embedding.view(), batch.token_ids,
                       parts_.embedding_scale, embedded);
        layer_inputs_ = parts_.layer_inputs->of_step(batch, embedded);
    }

    TensorView embed(const ForwardContext& batch) override {
        const Context& context = *batch.context;
        const TensorView hidden = take_activations(context, {batch.tokens(), config_.hidden_size});
        ops::embedding(context, parts_.token_embedding.view(), batch.token_ids,
                       parts_.embedding_scale, hidden);
        if (parts_.embedding_norm) parts_.embedding_norm->apply(context, hidden, hidden);
        if (parts_.position_embedding.empty()) return hidden;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView learned = take_activations(context, {batch.tokens(), config_.hidden_size});
        ops::embedding(context, parts_.position_embedding.view(), batch.rows.positions, 1.0f,
                       learned);
        ops::add(context, learned, hidden);
        return hidden;
    }

    void block(int32_t index, const ForwardContext& batch, const TensorView& hidden) override {
        const DecoderBlock& block = parts_.blocks[static_cast<size_t>(index)];
        block.apply(batch, index, block.rotary ? &cos_sin_[*block.rotary] : nullptr, hidden);
        const int64_t size = parts_.layer_inputs ? parts_.layer_inputs->size : 0;
        block.finish(*batch.context,
                     size > 0 ? layer_inputs_.columns(index * size, size) : TensorView(), hidden);
    }

    ConstTensorView last_hidden(const ForwardContext& batch,
                                const ConstTensorView& hidden) override {
        const Context& context = *batch.context;
        const TensorView normed = take_activations(context, {hidden.dim(0), config_.hidden_size});
        parts_.final_norm.apply(context, hidden, normed);
        return normed;
    }

    TensorView classify(const ForwardContext& batch, const ConstTensorView& hidden) override {
        return parts_.classifier.apply(*batch.context, hidden);
    }

    TensorView head(const ForwardContext& batch, const ConstTensorView& hidden) override {
        NVLLM_CHECK(config_.generates, "a body without an output matrix has no logits");
        const Context& context = *batch.context;
        const TensorView logits =
            take_values(context, DType::f32, {hidden.dim(0), config_.vocab_size});
        const ScratchArena::Scope scope(*context.scratch);
        parts_.head.apply(context, last_hidden(batch, hidden), ops::MatmulOutput::overwrite,
                          logits);
        if (parts_.logit_scale != 1.0f) ops::scale(context, parts_.logit_scale, logits);
        if (parts_.logit_soft_cap > 0.0f) ops::soft_cap(context, parts_.logit_soft_cap, logits);
        return logits;
    }

    bool is_capturable() const override {
        return std::all_of(parts_.blocks.begin(), parts_.blocks.end(),
                           [](const DecoderBlock& block) { return block.is_capturable(); });
    }

    std::span<const ChannelFlow> channel_flows(int32_t index) const override {
        return parts_.blocks[static_cast<size_t>(index)].flows;
    }

    int64_t original_context() const override {
        return nvllm::original_context(config_.rope, config_.max_positions,
                                       settings_.max_model_len);
    }

    size_t weight_bytes() const override {
        size_t bytes = parts_.token_embedding.bytes() + parts_.position_embedding.bytes() +
                       parts_.final_norm.bytes() + parts_.classifier.bytes() +
                       (parts_.tied ? 0 : parts_.head.bytes());
        if (parts_.embedding_norm) bytes += parts_.embedding_norm->bytes();
        if (parts_.layer_inputs) bytes += parts_.layer_inputs->bytes();
        for (const DecoderBlock& block : parts_.blocks) bytes += block.bytes();
        return bytes;
    }

  private:
    ModelConfig config_;
    ModelSettings settings_;
    DecoderParts parts_;
    std::vector<CacheLayout> groups_;
    // Of the current step, on its arena.
    std::vector<CosSin> cos_sin_;
    TensorView layer_inputs_;
};

}  // namespace

std::unique_ptr<Model> make_decoder(const ModelConfig& config, const ModelSettings& settings,
                                    DecoderParts parts) {
    return std::make_unique<Decoder>(config, settings, std::move(parts));
}

Tensor load_table(WeightSource& source, const std::string& name, int64_t rows, int64_t hidden) {
    const std::string module = name.substr(0, name.rfind('.'));
    const QuantizationScheme* const scheme =
        source.keeps_files() && !source.has(name) && source.quantization() != nullptr
            ? source.quantization()->scheme_for(module, "Embedding")
            : nullptr;
    if (scheme == nullptr) return source.read_placed_matrix(name, {rows, hidden}, {});
    const Tensor values = read_values(source, {module, hidden, rows}, *scheme);
    return source.placed(as_type(source, values, source.compute_type()));
}

void load_head(WeightSource& source, const ModelConfig& config, const VocabularyNames& names,
               DecoderParts& parts) {
    if (!config.labels.empty()) {
        parts.classifier.num_classes = static_cast<int64_t>(config.labels.size());
        parts.classifier.classes = load_head_linear(source, "score", config.hidden_size,
                                                    parts.classifier.num_classes, false);
    }
    if (!config.generates) return;
    parts.tied = names.is_tied;
    LinearSpec linear{names.head, config.hidden_size, config.vocab_size, config.head_bias,
                      ShardAxis::output};
    if (!parts.tied) {
        parts.head = load_linear(source, linear);
        return;
    }
    source.pass_over(names.head);
    linear.tied_to = names.embedding;
    const Tensor bias = read_bias(source, linear);
    parts.head = wrap_linear(source, linear,
                             make_dense_part(parts.token_embedding, bias, source.compute_type()));
}

}  // namespace nvllm
