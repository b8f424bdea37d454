// Carries out a plan: update what is known, compute, sample.
#include "lib/execute/worker.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "kernels/backend.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/elementwise.h"
#include "lib/base/fault_points.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// Block tables are as wide as a power of two in graphs, at least this.
constexpr size_t kMinColumns = 8;

// One more in each group where steps are filled up to a graph's shape.
std::vector<int32_t> with_filler_block(const WorkerConfig& config, const ComputeDevice& device) {
    std::vector<int32_t> num_blocks = config.num_blocks;
    if (device.is_cpu() || config.max_graph_rows == 0) return num_blocks;
    for (int32_t& blocks : num_blocks) ++blocks;
    return num_blocks;
}

}  // namespace
Worker::Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads,
               const ComputeDevice& device)
    : model_(std::move(model)),
      threads_(threads),
      device_(device),
      queue_(device),
      activations_(config.activations),
      rows_at_once_(max_logit_rows(config.max_num_seqs)),
      scratch_(model_->scratch_bytes(config.max_num_batched_tokens, rows_at_once_) +
                   sampling_scratch_bytes(device.is_cpu(), config.max_num_seqs,
                                          model_->config().vocab_size),
               device),
      kv_(model_->kv_groups(), with_filler_block(config, device), config.num_host_blocks,
          config.block_size, config.kv_dtype, device),
      builder_(model_->kv_groups().size(), config.block_size, device,
               model_->original_context() > 0),
      sampler_scratch_(static_cast<size_t>(threads.num_threads())),
      max_graph_rows_(config.max_graph_rows) {
    if (device.is_cpu()) return;
    if (max_graph_rows_ > 0 && model_->is_capturable()) graphs_.emplace(device);
    for (const int32_t blocks : config.num_blocks) filler_tables_.push_back({blocks});
    device_chooses_ = DeviceSampler::is_possible_on(device);
    device.backend()->set_batch_invariant(device.id().index, config.batch_invariant);
}

// Nothing of what it owns is in use when it goes.
Worker::~Worker() {
    try {
        device_.synchronize(queue_.stream());
    } catch (const Error&) {  // of a device that is lost nothing is in use
    }
}

void Worker::reset() {
    device_.synchronize(queue_.stream());
    under_way_.clear();
    sequences_.clear();
}

Context Worker::make_context() {
    // Scratch that grew gives memory back, which a step under way may use.
    if (scratch_.num_growths() != num_growths_) device_.synchronize(queue_.stream());
    num_growths_ = scratch_.num_growths();
    scratch_.reset();
    Context context{.device = device_.id(), .scratch = &scratch_, .threads = &threads_};
    context.stream = queue_.stream();
    context.backend = device_.backend();
    context.activations = activations_;
    if (device_.is_cpu()) return context;
    host_scratch_.reset();
    context.host_scratch = &host_scratch_;
    return context;
}

Worker::StepUnderWay& Worker::next_step() {
    NVLLM_CHECK(under_way_.size() < steps_.size(), "two steps are under way already");
    std::unique_ptr<StepUnderWay>& step = steps_[turn_++ % steps_.size()];
    if (step == nullptr) step = std::make_unique<StepUnderWay>(device_);
    step->result = {};
    step->logit_rows.clear();
    step->row_faults.clear();
    return *step;
}

void Worker::begin(const BatchPlan& plan) {
    fault_point("worker.step");
    const Context context = make_context();
    StepUnderWay& step = next_step();
    StepResult& result = step.result;
    result.plan_number = plan.number;
    move_blocks(context, plan, result);
    update_sequences(plan);

    list_sequences(plan);
    const std::optional<GraphShape> shape = graph_shape(plan);
    if (shape) fill_up_rows(shape->rows);
    ForwardContext batch = builder_.build(rows_, context.stream,
                                          shape ? static_cast<size_t>(shape->width) : size_t{1});
    batch.context = &context;
    batch.kv = kv_.layers();
    gather_expected(batch, plan);

    result.sequences.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        result.sequences[i].sequence = plan.entries[i].sequence;
    }
    if (!plan.entries.empty()) {
        const GraphCounts before = graphs_ ? graphs_->counts() : GraphCounts{};
        const ComputedStep computed = compute(batch, shape);
        if (graphs_) note_graphs(before, result.device);
        pool(batch, computed.hidden, plan, result);
        list_rows(plan, step);
        use_logits(batch, computed, step);
        expect_tokens(context, step);
    }
    step.done.record(context.stream);
    under_way_.push_back(&step);
}

StepResult Worker::finish() {
    NVLLM_CHECK(!under_way_.empty(), "no step was begun");
    StepUnderWay& step = *under_way_.front();
    if (under_way_.size() == 1) {
        device_.synchronize(queue_.stream());
    } else {
        step.done.await();
    }
    under_way_.pop_front();
    take_device_results(step);
    accept_tokens(step.result);
    // Rows of one sequence may have been several threads' work.
    for (size_t row = 0; row < step.logit_rows.size(); ++row) {
        if (step.row_faults[row]) {
            step.result.sequences[step.logit_rows[row].entry].fault =
                std::move(step.row_faults[row]);
        }
    }
    return std::move(step.result);
}

void Worker::list_sequences(const BatchPlan& plan) {
    rows_.clear();
    for (const PlanEntry& entry : plan.entries) {
        const SequenceState& state = sequences_.at(entry.sequence);
        fault_point("worker.sequence", state.token_ids.front());
        const bool wants_logits =
            entry.output == OutputKind::sample || entry.output == OutputKind::candidates;
        const auto end = static_cast<size_t>(entry.first + entry.count);
        rows_.push_back({state.token_ids, state.block_tables, entry.first, entry.count,
                         num_prompt_logprobs(entry), wants_logits,
                         state.chooses_on_device && entry.output == OutputKind::sample,
                         state.num_expected == 1 && end == state.token_ids.size() + 1,
                         state.rope_choice});
    }
}

// Sequences mostly stand as they stood in the step before: few copies for many of them.
void Worker::gather_expected(const ForwardContext& batch, const BatchPlan& plan) {
    constexpr size_t kBytes = sizeof(int32_t);
    auto* const tokens = static_cast<std::byte*>(const_cast<void*>(batch.token_ids.data));
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
    size_t place = 0;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        place += static_cast<size_t>(rows_[i].count);
        if (!rows_[i].is_expected) continue;
        std::byte* const target = tokens + (place - 1) * kBytes;
        const std::byte* const source = sequences_.at(plan.entries[i].sequence).expected_token;
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

void Worker::expect_tokens(const Context& context, StepUnderWay& step) {
    if (step.logit_rows.empty() || !step.logit_rows.front().on_device) return;
    step.sampler.fetch(context);
    for (size_t row = 0; row < step.logit_rows.size() && step.logit_rows[row].on_device; ++row) {
        const size_t entry = step.logit_rows[row].entry;
        SequenceState& state = sequences_.at(step.result.sequences[entry].sequence);
        ++state.num_expected;
        state.expected_token = static_cast<const std::byte*>(step.sampler.token_place(row));
    }
}

void Worker::move_blocks(const Context& context, const BatchPlan& plan, StepResult& result) {
    const auto begin = std::chrono::steady_clock::now();
    kv_.copy_blocks(context, plan.moves);
    if (!plan.num_blocks.empty()) kv_.use_first(plan.num_blocks);
    result.swapped_bytes += kv_.swap_out(context, plan.swaps_out);
    kv_.copy_blocks(context, plan.copies);
    result.swapped_bytes += kv_.swap_in(context, plan.swaps_in);
    if (result.swapped_bytes > 0) device_.synchronize(context.stream);
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    if (result.swapped_bytes > 0) result.swap_ms = passed.count();
}

void Worker::update_sequences(const BatchPlan& plan) {
    for (const SequenceId sequence : plan.removed) sequences_.erase(sequence);
    for (const TableChange& change : plan.table_changes) {
        sequences_.at(change.owner)
            .block_tables[static_cast<size_t>(change.group)][static_cast<size_t>(change.index)] =
            change.block;
    }
    for (const AddedSequence& added : plan.added) add(added);
    for (const PlanEntry& entry : plan.entries) {
        SequenceState& state = sequences_.at(entry.sequence);
        state.token_ids.insert(state.token_ids.end(), entry.new_token_ids.begin(),
                               entry.new_token_ids.end());
        std::vector<std::vector<int32_t>>& tables = state.block_tables;
        for (size_t group = 0; group < entry.new_blocks.size(); ++group) {
            tables[group].insert(tables[group].end(), entry.new_blocks[group].begin(),
                                 entry.new_blocks[group].end());
        }
    }
}

void Worker::add(const AddedSequence& added) {
    NVLLM_CHECK(
        added.rope_choice == 0 || (added.rope_choice == 1 && model_->original_context() > 0),
        "a sequence takes rotary frequencies that the model has");
    SequenceState state{
        added.token_ids,
        added.block_tables,
        SequenceSamplingState(added.sampling, added.token_ids, added.num_prompt_tokens,
                              added.eos_token_ids, added.index),
        added.num_prompt_tokens,
        added.rope_choice,
        std::nullopt,
        false};
    if (added.pooling) state.pooling.emplace(*added.pooling);
    state.chooses_on_device = device_chooses_ && DeviceSampler::can_sample(added.sampling);
    state.block_tables.resize(model_->kv_groups().size());
    const bool fresh = sequences_.insert_or_assign(added.sequence, std::move(state)).second;
    NVLLM_CHECK(fresh, "a sequence is added once until it is removed");
}

std::optional<GraphShape> Worker::graph_shape(const BatchPlan& plan) const {
    if (!graphs_ || !graphs_->is_usable() || rows_.empty()) return std::nullopt;
    size_t width = kMinColumns;
    for (const BatchRow& row : rows_) {
        if (row.count != 1 || row.num_leading_logits > 0 || !row.wants_logits) return std::nullopt;
        for (const auto& table : row.block_tables) width = std::max(width, table.size());
    }
    const auto rows = graph_rows_for(static_cast<int32_t>(plan.entries.size()), max_graph_rows_);
    if (!rows) return std::nullopt;
    return GraphShape{*rows, static_cast<int32_t>(std::bit_ceil(width))};
}

void Worker::fill_up_rows(int32_t wanted) {
    const BatchRow filler{filler_token_ids_, filler_tables_, 0, 1, 0, true, false};
    rows_.resize(static_cast<size_t>(wanted), filler);
}

void Worker::note_graphs(const GraphCounts& before, DeviceCounts& counts) const {
    counts.graph_captures += graphs_->counts().captures - before.captures;
    counts.graph_launches += graphs_->counts().launches - before.launches;
}

ComputedStep Worker::compute(const ForwardContext& batch, const std::optional<GraphShape>& shape) {
    if (!shape) return {run_blocks(batch), std::nullopt};
    return graphs_->run(*batch.context, *shape, builder_.place(), [&]() -> ComputedStep {
        const TensorView hidden = run_blocks(batch);
        const ConstTensorView& places = builder_.logit_rows();
        if (places.dim(0) > rows_at_once_) return {hidden, std::nullopt};
        return {hidden, run_head(batch, hidden, places)};
    });
}

TensorView Worker::run_blocks(const ForwardContext& batch) {
    model_->begin(batch);
    const TensorView hidden = model_->embed(batch);
    for (int32_t index = 0; index < model_->num_blocks(); ++index) {
        model_->block(index, batch, hidden);
    }
    return hidden;
}

void Worker::pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
                  StepResult& result) {
    int64_t row = 0;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const PlanEntry& entry = plan.entries[i];
        if (sequences_.at(entry.sequence).pooling) {
            pool_rows(batch, hidden.rows(row, entry.count), entry, result.sequences[i]);
        }
        row += entry.count;
    }
}

void Worker::pool_rows(const ForwardContext& batch, const TensorView& hidden,
                       const PlanEntry& entry, SequenceStep& step) {
    PoolingState& pooling = *sequences_.at(entry.sequence).pooling;
    const bool ends = entry.output == OutputKind::pooled;
    const PoolingState::Run wanted = pooling.wanted(entry.first, entry.count, ends);
    for (int64_t done = 0; done < wanted.count; done += rows_at_once_) {
        const ScratchArena::Scope scope(scratch_);
        const int64_t count = std::min(rows_at_once_, wanted.count - done);
        pooling.add(fetch(*batch.context,
                          model_->last_hidden(batch, hidden.rows(wanted.first + done, count))));
    }
    if (!ends) return;
    Result<std::vector<float>> vector = pooling.finish();
    if (vector) {
        step.embedding = std::move(*vector);
    } else {
        step.fault = vector.fault();
    }
}

}  // namespace nvllm
