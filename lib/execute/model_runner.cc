// From plan entries to batch rows, and from those to hidden states and logits.
#include "lib/execute/model_runner.h"

#include <algorithm>
#include <bit>

#include "lib/base/fault_points.h"
#include "lib/model/forward_pass.h"

namespace nvllm {
namespace {

// Block tables are as wide as a power of two in graphs, at least this.
constexpr size_t kMinColumns = 8;

// The last rows of an entry that want logits.
int32_t num_last_logits(const PlanEntry& entry, const DraftTokens& drafts) {
    if (entry.output == OutputKind::candidates) return 1;
    return entry.output == OutputKind::sample ? drafts.size() + 1 : 0;
}

BatchRow row_of(const PlanEntry& entry, const WorkerSequence& sequence, const DraftTokens& drafts) {
    const auto end = static_cast<size_t>(entry.first + entry.count);
    const size_t num_known = sequence.token_ids.size();
    NVLLM_CHECK(drafts.empty() || end == num_known + drafts.token_ids.size(),
                "drafts follow the last known token");
    BatchRow row{sequence.token_ids, sequence.block_tables, entry.first, entry.count};
    row.drafts = drafts.token_ids;
    if (drafts.branches()) row.parents = drafts.parents;
    row.rope_choice = sequence.rope_choice;
    if (sequence.pooling) row.second_text = sequence.pooling->params().second_text;
    if (sequence.refusal) return row;
    row.num_leading_logits = sequence.num_prompt_logprobs(entry);
    row.num_last_logits = num_last_logits(entry, drafts);
    row.logits_first =
        entry.output == OutputKind::sample && sequence.is_sampled_on_device(!drafts.empty());
    row.is_expected =
        sequence.num_expected > 0 && end == num_known + static_cast<size_t>(sequence.num_expected);
    return row;
}

}  // namespace

ModelRunner::ModelRunner(Model& model, const WorkerConfig& config, int64_t max_logit_rows,
                         const ComputeDevice& device, const AdapterStore* adapters)
    : model_(model),
      device_(device),
      max_logit_rows_(max_logit_rows),
      max_graph_rows_(config.max_graph_rows),
      builder_(model.kv_groups(), config.block_size, device, model.original_context() > 0,
               model.config().num_token_types > 1, adapters != nullptr),
      adapters_(adapters) {
    if (device.is_cpu()) return;
    if (max_graph_rows_ > 0 && model.is_capturable()) graphs_.emplace(device);
    for (const int32_t blocks : config.num_blocks) filler_tables_.push_back({blocks});
}

ForwardContext ModelRunner::lay_out(const Context& context, const BatchPlan& plan,
                                    const PlanExtras& extras, const WorkerSequences& sequences,
                                    std::span<const KvLayer> kv) {
    add_rows(plan, extras, sequences);
    collect_adapters();
    shape_ = graph_shape();
    if (shape_) add_filler_rows(shape_->rows);
    const size_t min_width = shape_ ? static_cast<size_t>(shape_->width) : 1;
    ForwardContext batch = builder_.build(rows_, context.stream, min_width);
    batch.context = &context;
    batch.kv = kv;
    add_adapters(batch);
    gather_expected(batch, plan, sequences);
    return batch;
}

void ModelRunner::add_rows(const BatchPlan& plan, const PlanExtras& extras,
                           const WorkerSequences& sequences) {
    rows_.clear();
    num_entries_ = plan.entries.size();
    for (size_t i = 0; i < num_entries_; ++i) {
        const PlanEntry& entry = plan.entries[i];
        const WorkerSequence& sequence = sequences.at(entry.sequence);
        fault_point("worker.sequence", sequence.token_ids.front());
        rows_.push_back(row_of(entry, sequence, extras.drafts(i)));
        if (sequence.adapter > 0 && !sequence.refusal) {
            rows_.back().adapter_slot = adapters_->slot_of(sequence.adapter);
            NVLLM_CHECK(rows_.back().adapter_slot > 0, "a step's adapters are in slots");
        }
    }
}

// The tables of the rows' adapters, each once.
void ModelRunner::collect_adapters() {
    slots_in_use_.clear();
    lora_tables_.clear();
    for (const BatchRow& row : rows_) {
        if (row.adapter_slot == 0) continue;
        if (std::ranges::find(slots_in_use_, row.adapter_slot) != slots_in_use_.end()) continue;
        slots_in_use_.push_back(row.adapter_slot);
        const std::span<const LoraTable> tables = adapters_->slots().tables(row.adapter_slot);
        lora_tables_.insert(lora_tables_.end(), tables.begin(), tables.end());
    }
}

void ModelRunner::add_adapters(ForwardContext& batch) {
    if (slots_in_use_.empty()) return;
    lora_ = {batch.rows.adapters, adapters_->slots().linears(), lora_tables_,
             adapters_->slots().compute_type()};
    context_ = *batch.context;
    context_.lora = &lora_;
    batch.context = &context_;
}

std::optional<GraphShape> ModelRunner::graph_shape() const {
    if (!graphs_ || !graphs_->is_usable() || rows_.empty()) return std::nullopt;
    // A graph has no place for tables that only some batches have.
    if (!lora_tables_.empty()) return std::nullopt;
    size_t width = kMinColumns;
    for (const BatchRow& row : rows_) {
        if (row.count != 1 || row.num_leading_logits > 0 || row.num_last_logits == 0) {
            return std::nullopt;
        }
        for (const auto& table : row.block_tables) width = std::max(width, table.size());
    }
    const auto rows = graph_rows_for(static_cast<int32_t>(num_entries_), max_graph_rows_);
    if (!rows) return std::nullopt;
    return GraphShape{*rows, static_cast<int32_t>(std::bit_ceil(width)),
                      slots_in_use_.empty() ? -1 : adapters_->slots().pattern()};
}

void ModelRunner::add_filler_rows(int32_t total) {
    BatchRow filler{filler_token_ids_, filler_tables_, 0, 1};
    filler.num_last_logits = 1;
    rows_.resize(static_cast<size_t>(total), filler);
}

// Sequences mostly keep their order from step to step: few copies for many of them.
void ModelRunner::gather_expected(const ForwardContext& batch, const BatchPlan& plan,
                                  const WorkerSequences& sequences) {
    constexpr size_t kBytes = sizeof(int32_t);
    auto* const tokens = static_cast<std::byte*>(const_cast<void*>(batch.token_ids.data));
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
    size_t end = 0;
    for (size_t i = 0; i < num_entries_; ++i) {
        end += static_cast<size_t>(rows_[i].count);
        if (!rows_[i].is_expected) continue;
        std::byte* const target = tokens + (end - 1) * kBytes;
        const std::byte* const source = sequences.at(plan.entries[i].sequence).expected_token;
        if (target != to + bytes || source != from + bytes) {
            device_.copy_within(batch.context->stream, to, from, bytes);
            to = target;
            from = source;
            bytes = 0;
        }
        bytes += kBytes;
    }
    device_.copy_within(batch.context->stream, to, from, bytes);
}

ComputedStep ModelRunner::forward(const ForwardContext& batch, DeviceCounts& counts) {
    if (!shape_) return {run_blocks(model_, batch), std::nullopt};
    const GraphCounts before = graphs_->counts();
    const ComputedStep computed =
        graphs_->run(*batch.context, *shape_, builder_.address_version(), [&]() -> ComputedStep {
            const TensorView hidden = run_blocks(model_, batch);
            const ConstTensorView& indices = builder_.logit_rows();
            if (indices.dim(0) > max_logit_rows_) return {hidden, std::nullopt};
            return {hidden, run_head(model_, batch, hidden, indices, builder_.logit_adapters())};
        });
    counts.graph_captures += graphs_->counts().captures - before.captures;
    counts.graph_launches += graphs_->counts().launches - before.launches;
    return computed;
}

TensorView ModelRunner::logits(const ForwardContext& batch, const ComputedStep& computed,
                               int64_t first, int64_t count) {
    if (computed.logits) return computed.logits->rows(first, count);
    const ConstTensorView& adapters = builder_.logit_adapters();
    return run_head(model_, batch, computed.hidden, builder_.logit_rows().rows(first, count),
                    adapters.data == nullptr ? adapters : adapters.rows(first, count));
}

}  // namespace nvllm
