// Carries out a plan: update what is known, compute, sample.
#include "lib/execute/worker.h"

#include <algorithm>

#include "kernels/ops/elementwise.h"
#include "kernels/thread_pool.h"

namespace nvllm {
namespace {

// Logits of so many rows exist at one time, whatever the batch: 64 rows of a vocabulary of 128,256
// are 33 MB.
constexpr int64_t kLogitRows = 64;

}  // namespace

int64_t Worker::most_logit_rows(int32_t max_num_seqs) {
    return std::min<int64_t>(kLogitRows, max_num_seqs);
}

Worker::Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads)
    : model_(std::move(model)),
      threads_(threads),
      scratch_(model_->scratch_bytes(config.max_num_batched_tokens,
                                     most_logit_rows(config.max_num_seqs))),
      kv_(model_->kv_groups(), config.num_blocks, config.block_size, config.kv_dtype),
      builder_(model_->kv_groups().size(), config.block_size),
      sampler_scratch_(static_cast<size_t>(threads.num_threads())) {}

void Worker::reset() { sequences_.clear(); }

StepResult Worker::execute(const BatchPlan& plan) {
    scratch_.reset();
    const Context context{.device = {}, .scratch = &scratch_, .threads = &threads_};
    update_sequences(plan);
    kv_.copy_blocks(context, plan.copies);

    rows_.clear();
    for (const PlanEntry& entry : plan.entries) {
        const SequenceState& state = sequences_.at(entry.sequence);
        rows_.push_back({state.token_ids, state.block_tables, entry.first, entry.count,
                         entry.output == OutputKind::sample});
    }
    ForwardContext batch = builder_.build(rows_);
    batch.kernels = &context;
    batch.kv = kv_.layers();

    StepResult result;
    result.plan_number = plan.number;
    result.sequences.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        result.sequences[i].sequence = plan.entries[i].sequence;
    }
    if (!plan.entries.empty()) sample_entries(plan, batch, run_blocks(batch), result);
    return result;
}

void Worker::update_sequences(const BatchPlan& plan) {
    for (const SequenceId sequence : plan.removed) sequences_.erase(sequence);
    for (const AddedSequence& added : plan.added) add(added);
    for (const PlanEntry& entry : plan.entries) {
        std::vector<std::vector<int32_t>>& tables = sequences_.at(entry.sequence).block_tables;
        for (size_t group = 0; group < entry.new_blocks.size(); ++group) {
            tables[group].insert(tables[group].end(), entry.new_blocks[group].begin(),
                                 entry.new_blocks[group].end());
        }
    }
}

void Worker::add(const AddedSequence& added) {
    SequenceState state{
        added.token_ids, added.block_tables,
        SequenceSamplingState(added.sampling, added.token_ids, added.num_prompt_tokens,
                              added.eos_token_ids, added.index)};
    state.block_tables.resize(model_->kv_groups().size());
    const bool fresh = sequences_.insert_or_assign(added.sequence, std::move(state)).second;
    NVLLM_CHECK(fresh, "a sequence is added once until it is removed");
}

TensorView Worker::run_blocks(const ForwardContext& batch) {
    model_->begin(batch);
    const TensorView hidden = model_->embed(batch);
    for (int32_t index = 0; index < model_->num_blocks(); ++index) {
        model_->block(index, batch, hidden);
    }
    return hidden;
}

void Worker::sample_entries(const BatchPlan& plan, const ForwardContext& batch,
                            const TensorView& hidden, StepResult& result) {
    sampled_entries_.clear();
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        if (plan.entries[i].output == OutputKind::sample) sampled_entries_.push_back(i);
    }
    const ConstTensorView all_rows = builder_.logit_rows();
    for (int64_t begin = 0; begin < all_rows.dim(0); begin += kLogitRows) {
        const ScratchArena::Scope scope(scratch_);
        const ConstTensorView rows =
            all_rows.rows(begin, std::min(kLogitRows, all_rows.dim(0) - begin));
        const TensorView last(
            scratch_.take_array<float>(static_cast<size_t>(rows.dim(0) * hidden.dim(1))),
            DType::f32, {rows.dim(0), hidden.dim(1)});
        ops::gather_rows(*batch.kernels, hidden, rows, last);
        const TensorView logits = model_->head(batch, last);
        threads_.parallel_for(rows.dim(0), 1, [&](int64_t first, int64_t end, int thread) {
            for (int64_t row = first; row < end; ++row) {
                const size_t entry = sampled_entries_[static_cast<size_t>(begin + row)];
                const std::span<float> scores(logits.as<float>() + row * logits.stride(0),
                                              static_cast<size_t>(logits.dim(1)));
                sample_row(plan.entries[entry].sequence, scores,
                           sampler_scratch_[static_cast<size_t>(thread)], result.sequences[entry]);
            }
        });
    }
}

void Worker::sample_row(SequenceId sequence, std::span<float> logits, SamplerScratch& scratch,
                        SequenceStep& step) {
    SequenceState& state = sequences_.at(sequence);
    Result<SampledToken> sampled = sample(state.sampling, logits, scratch);
    if (!sampled) {
        step.fault = sampled.fault();
        return;
    }
    state.token_ids.push_back(sampled->token_id);
    state.sampling.accept(sampled->token_id);
    step.token_ids.push_back(sampled->token_id);
    if (sampled->logprobs) step.logprobs.push_back(std::move(*sampled->logprobs));
}

}  // namespace nvllm
