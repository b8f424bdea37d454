// The forward pass of encoders, top to bottom.
#include "lib/model/families/encoder.h"

#include <utility>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"

namespace nvllm {
namespace {

CacheLayout group_of(const std::vector<EncoderBlock>& blocks, int32_t first) {
    CacheLayout group;
    for (size_t layer = 0; layer < blocks.size(); ++layer) {
        group.layers.push_back(first + static_cast<int32_t>(layer));
        group.kv_heads = static_cast<int32_t>(blocks[layer].attention.kv_heads);
        group.head_dim = static_cast<int32_t>(blocks[layer].attention.head_dim);
    }
    return group;
}

class Encoder final : public Model {
  public:
    Encoder(const ModelConfig& config, const ModelSettings& settings, EncoderParts parts)
        : config_(config),
          first_block_(settings.part.first_block),
          parts_(std::move(parts)),
          groups_(as_planned({group_of(parts_.blocks, first_block_)}, settings)) {}

    const ModelConfig& config() const override { return config_; }
    const std::vector<CacheLayout>& kv_groups() const override { return groups_; }
    int32_t num_blocks() const override { return static_cast<int32_t>(parts_.blocks.size()); }

    void begin(const ForwardContext&) override {}

    TensorView embed(const ForwardContext& batch) override {
        const Context& context = *batch.context;
        const int64_t tokens = batch.tokens();
        const TensorView hidden = take_activations(context, {tokens, config_.hidden_size});
        ops::embedding(context, parts_.token_embedding.view(), batch.token_ids, 1.0f, hidden);
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView more = take_activations(context, {tokens, config_.hidden_size});
        if (!parts_.type_embedding.empty()) {
            ops::embedding(context, parts_.type_embedding.view(), types_of(batch), 1.0f, more);
            ops::add(context, more, hidden);
        }
        const ConstTensorView table =
            parts_.position_embedding.view().rows(parts_.position_offset, config_.max_positions);
        ops::embedding(context, table, batch.rows.positions, 1.0f, more);
        ops::add(context, more, hidden);
        parts_.embedding_norm.apply(context, hidden, hidden);
        return hidden;
    }

    void block(int32_t index, const ForwardContext& batch, const TensorView& hidden) override {
        parts_.blocks[static_cast<size_t>(index)].apply(batch, first_block_ + index, hidden);
    }

    ConstTensorView last_hidden(const ForwardContext&, const ConstTensorView& hidden) override {
        return hidden;
    }

    TensorView classify(const ForwardContext& batch, const ConstTensorView& hidden) override {
        return parts_.classifier.apply(*batch.context, hidden);
    }

    TensorView head(const ForwardContext&, const ConstTensorView&) override {
        NVLLM_CHECK(false, "an encoder has no logits");
        return {};
    }

    bool is_capturable() const override { return false; }  // its steps are all of other shapes

    size_t weight_bytes() const override {
        size_t bytes = parts_.token_embedding.bytes() + parts_.position_embedding.bytes() +
                       parts_.type_embedding.bytes() + parts_.embedding_norm.bytes() +
                       parts_.position_bias.bytes() + parts_.classifier.bytes();
        for (const EncoderBlock& block : parts_.blocks) bytes += block.bytes();
        return bytes;
    }

    ModelCost cost() const override {
        ModelCost cost = cost_of(config_);
        for (const EncoderBlock& block : parts_.blocks) {
            BlockCost& own = cost.blocks.emplace_back();
            own.weight_bytes = block.bytes();
            own.sums = block.attention.output.sums_ranks() + block.mlp.down.sums_ranks();
        }
        add_cached(groups_, first_block_, cost);
        cost.embedding_bytes = parts_.token_embedding.bytes() + parts_.position_embedding.bytes();
        return cost;
    }

  private:
    static ConstTensorView types_of(const ForwardContext& batch) {
        if (batch.rows.token_types.data != nullptr) return batch.rows.token_types;
        const Context& context = *batch.context;
        const int64_t tokens = batch.tokens();
        const TensorView types = take_values(context, DType::i32, {tokens});
        if (context.is_dry_run()) return types;
        ComputeDevice(context).clear(context.stream, types.data,
                                     static_cast<size_t>(tokens) * sizeof(int32_t));
        return types;
    }

    ModelConfig config_;
    int32_t first_block_;
    EncoderParts parts_;
    std::vector<CacheLayout> groups_;
};

}  // namespace

std::unique_ptr<Model> make_encoder(const ModelConfig& config, const ModelSettings& settings,
                                    EncoderParts parts) {
    return std::make_unique<Encoder>(config, settings, std::move(parts));
}

}  // namespace nvllm
