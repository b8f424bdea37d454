// The forward pass of decoders, top to bottom.
#include "lib/model/families/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/error.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/module_sharding.h"

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

std::vector<CacheLayout> groups_of(const std::vector<DecoderBlock>& blocks, int32_t first) {
    std::vector<CacheLayout> groups;
    for (size_t index = 0; index < blocks.size(); ++index) {
        const DecoderBlock& block = blocks[index];
        const auto layer = first + static_cast<int32_t>(index);
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
          groups_(as_planned(groups_of(parts_.blocks, settings.part.first_block), settings)) {}

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
        look_up(batch, embedded);
        layer_inputs_ = parts_.layer_inputs->of_step(batch, embedded);
    }

    TensorView embed(const ForwardContext& batch) override {
        const Context& context = *batch.context;
        const TensorView hidden = take_activations(context, {batch.tokens(), config_.hidden_size});
        look_up(batch, hidden);
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
        const int32_t number = settings_.part.first_block + index;
        block.apply(batch, number, block.rotary ? &cos_sin_[*block.rotary] : nullptr, hidden);
        const int64_t size = parts_.layer_inputs ? parts_.layer_inputs->size : 0;
        block.finish(*batch.context,
                     size > 0 ? layer_inputs_.columns(number * size, size) : TensorView(), hidden);
    }

    std::vector<const ExpertCounts*> expert_counts() const override {
        std::vector<const ExpertCounts*> counts;
        for (const DecoderBlock& block : parts_.blocks) {
            for (const MoeMlp* layer : block.expert_layers()) {
                if (layer->counts != nullptr) counts.push_back(layer->counts.get());
            }
        }
        return counts;
    }

    int32_t num_spread_layers() const override {
        int32_t count = 0;
        for (const DecoderBlock& block : parts_.blocks) {
            for (const MoeMlp* layer : block.expert_layers()) count += layer->share ? 1 : 0;
        }
        return count;
    }

    void take_part(const Context& context) override {
        for (const DecoderBlock& block : parts_.blocks) {
            for (const MoeMlp* layer : block.expert_layers()) {
                if (layer->share) layer->take_part(context);
            }
        }
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
        apply_head(context, last_hidden(batch, hidden), logits);
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

    ModelCost cost() const override {
        ModelCost cost = cost_of(config_);
        for (const DecoderBlock& block : parts_.blocks) {
            BlockCost& own = cost.blocks.emplace_back();
            own.weight_bytes = block.bytes();
            own.expert_bytes = block.expert_bytes();
            own.sums = block.rank_sums();
        }
        add_cached(groups_, settings_.part.first_block, cost);
        const uint64_t table = parts_.token_embedding.bytes();
        cost.embedding_bytes = parts_.tied ? 0 : table;
        cost.head_bytes = parts_.tied ? table : parts_.head.bytes();
        cost.is_vocabulary_cut = !parts_.vocabulary.is_whole();
        return cost;
    }

  private:
    // Embeddings of the batch's tokens. Of a token that is another rank's this one adds nothing.
    void look_up(const ForwardContext& batch, const TensorView& out) const {
        const Context& context = *batch.context;
        if (parts_.token_embedding.empty()) return check_dry_run(context);
        const ConstTensorView table = parts_.token_embedding.view();
        const int64_t first = parts_.vocabulary.rank * table.dim(0);
        ops::embedding(context, table, batch.token_ids, parts_.embedding_scale, out,
                       {first, !parts_.vocabulary.is_whole()});
        if (!parts_.vocabulary.is_whole()) ops::all_reduce(context, out);
        adapt_embedding(context, parts_.embedding_target, batch.token_ids, parts_.embedding_scale,
                        out);
    }

    // What a stage does not have is not computed.
    static void check_dry_run(const Context& context) {
        NVLLM_CHECK(context.is_dry_run(), "a stage computes only what it has");
    }

    // The logits of all ranks.
    void apply_head(const Context& context, const ConstTensorView& x,
                    const TensorView& logits) const {
        if (parts_.head.out() == 0) return check_dry_run(context);
        const bool is_whole = parts_.head_shard.is_whole();
        const TensorView own =
            is_whole ? logits : take_values(context, DType::f32, {x.dim(0), parts_.head.out()});
        parts_.head.apply(context, x, ops::MatmulOutput::overwrite, own);
        replace_head(context, x, own);
        if (is_whole) return;
        ops::gather_columns(context, own, logits);
    }

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

namespace {

// Also of an embedding, whose rows are outputs of the head that may be tied to it.
ModuleSharding vocabulary_sharding(WeightSource& source, const LinearSpec& linear) {
    return {source, {&linear, 1}};
}

}  // namespace

// A table that is stored quantized is no linear's and is not cut.
void load_embedding(WeightSource& source, const ModelConfig& config, const VocabularyNames& names,
                    DecoderParts& parts) {
    const ModelPart& part = source.part();
    const bool is_used =
        part.has_embedding || config.layer_input_size > 0 || (part.has_head && names.is_tied);
    if (!is_used) return;
    const int64_t hidden = config.hidden_size;
    const std::string module = names.embedding.substr(0, names.embedding.rfind('.'));
    if (source.lora_targets() != nullptr && part.has_embedding) {
        parts.embedding_target =
            source.lora_targets()->add_embedding(module, config.vocab_size, hidden);
    }
    LinearSpec linear{module, hidden, config.vocab_size, false, ShardAxis::output};
    linear.tied_to = names.embedding;
    if (source.keeps_files() && !source.has(names.embedding)) {
        parts.token_embedding = load_table(source, names.embedding, config.vocab_size, hidden);
        return;
    }
    const ModuleSharding cut = vocabulary_sharding(source, linear);
    const LinearSpec slice = cut.of(linear);
    parts.vocabulary = cut.shard();
    parts.token_embedding =
        source.read_placed_matrix(names.embedding, {slice.out, hidden}, slice.slice());
}

void load_head(WeightSource& source, const ModelConfig& config, const VocabularyNames& names,
               DecoderParts& parts) {
    if (!config.labels.empty()) {
        parts.classifier.num_classes = static_cast<int64_t>(config.labels.size());
        parts.classifier.classes = load_head_linear(source, "score", config.hidden_size,
                                                    parts.classifier.num_classes, false);
    }
    if (!config.generates || !source.part().has_head) return;
    parts.tied = names.is_tied;
    LinearSpec linear{names.head, config.hidden_size, config.vocab_size, config.head_bias,
                      ShardAxis::output};
    if (!parts.tied) {
        const ModuleSharding cut = vocabulary_sharding(source, linear);
        parts.head_shard = cut.shard();
        parts.head = load_linear(source, cut.of(linear));
        if (source.lora_targets() != nullptr) source.lora_targets()->note_head();
        return;
    }
    source.pass_over(names.head);
    linear.tied_to = names.embedding;
    parts.head_shard = parts.vocabulary;
    linear = slice_of(linear, parts.head_shard);
    const Tensor bias = read_bias(source, linear);
    parts.head = wrap_linear(source, linear,
                             make_dense_part(parts.token_embedding, bias, source.compute_type()));
    if (source.lora_targets() != nullptr) source.lora_targets()->note_head();
}

}  // namespace nvllm
