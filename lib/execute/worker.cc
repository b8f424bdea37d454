// Carries out a plan: update what is known, compute, sample.
#include "lib/execute/worker.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/ops/elementwise.h"
#include "kernels/thread_pool.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

// Logits of so many rows exist at one time, whatever the batch: 64 rows of a vocabulary of 128,256
// are 33 MB.
constexpr int64_t kLogitRows = 64;
// And so many may, however few sequences run: scoring a prompt reads the output matrix once for so
// many tokens.
constexpr int64_t kFewestLogitRows = 16;

}  // namespace

int64_t Worker::most_logit_rows(int32_t max_num_seqs) {
    return std::clamp<int64_t>(max_num_seqs, kFewestLogitRows, kLogitRows);
}

Worker::Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads)
    : model_(std::move(model)),
      threads_(threads),
      rows_at_once_(most_logit_rows(config.max_num_seqs)),
      scratch_(model_->scratch_bytes(config.max_num_batched_tokens, rows_at_once_)),
      kv_(model_->kv_groups(), config.num_blocks, config.num_host_blocks, config.block_size,
          config.kv_dtype),
      builder_(model_->kv_groups().size(), config.block_size),
      sampler_scratch_(static_cast<size_t>(threads.num_threads())) {}

void Worker::reset() { sequences_.clear(); }

StepResult Worker::execute(const BatchPlan& plan) {
    fault_point("worker.step");
    scratch_.reset();
    const Context context{.device = {}, .scratch = &scratch_, .threads = &threads_};
    StepResult result;
    result.plan_number = plan.number;
    move_blocks(context, plan, result);
    update_sequences(plan);

    rows_.clear();
    for (const PlanEntry& entry : plan.entries) {
        const SequenceState& state = sequences_.at(entry.sequence);
        fault_point("worker.sequence", state.token_ids.front());
        const bool wants_logits =
            entry.output == OutputKind::sample || entry.output == OutputKind::candidates;
        rows_.push_back({state.token_ids, state.block_tables, entry.first, entry.count,
                         num_prompt_logprobs(entry), wants_logits});
    }
    ForwardContext batch = builder_.build(rows_);
    batch.kernels = &context;
    batch.kv = kv_.layers();

    result.sequences.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        result.sequences[i].sequence = plan.entries[i].sequence;
    }
    if (plan.entries.empty()) return result;
    const TensorView hidden = run_blocks(batch);
    pool(batch, hidden, plan, result);
    list_rows(plan, result);
    use_logits(batch, hidden, result);
    return result;
}

// The entry's first rows that predict a prompt token of which the logprob is wanted. The first
// continuation alone is asked: the others have the same prompt.
int32_t Worker::num_prompt_logprobs(const PlanEntry& entry) const {
    const SequenceState& state = sequences_.at(entry.sequence);
    if (!state.sampling.params().prompt_logprobs || state.sampling.continuation_index() != 0) {
        return 0;
    }
    return std::clamp(state.num_prompt_tokens - 1 - entry.first, 0, entry.count);
}

// As BatchBuilder::logit_rows() has them.
void Worker::list_rows(const BatchPlan& plan, StepResult& result) {
    logit_rows_.clear();
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const auto leading = static_cast<size_t>(rows_[i].num_leading_logits);
        result.sequences[i].prompt_logprobs.resize(leading);
        result.sequences[i].first_prompt_logprob = plan.entries[i].first + 1;
        for (size_t row = 0; row < leading; ++row) logit_rows_.push_back({i, row});
        if (rows_[i].wants_logits) {
            logit_rows_.push_back({i, std::nullopt, plan.entries[i].num_candidates});
        }
    }
}

void Worker::move_blocks(const Context& context, const BatchPlan& plan, StepResult& result) {
    const auto begin = std::chrono::steady_clock::now();
    kv_.copy_blocks(context, plan.moves);
    if (!plan.num_blocks.empty()) kv_.use_first(plan.num_blocks);
    result.swapped_bytes += kv_.swap_out(context, plan.swaps_out);
    kv_.copy_blocks(context, plan.copies);
    result.swapped_bytes += kv_.swap_in(context, plan.swaps_in);
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
    SequenceState state{
        added.token_ids, added.block_tables,
        SequenceSamplingState(added.sampling, added.token_ids, added.num_prompt_tokens,
                              added.eos_token_ids, added.index),
        added.num_prompt_tokens, std::nullopt};
    if (added.pooling) state.pooling.emplace(*added.pooling);
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
        pooling.add(model_->last_hidden(batch, hidden.rows(wanted.first + done, count)));
    }
    if (!ends) return;
    Result<std::vector<float>> vector = pooling.finish();
    if (vector) {
        step.embedding = std::move(*vector);
    } else {
        step.fault = vector.fault();
    }
}

void Worker::use_logits(const ForwardContext& batch, const TensorView& hidden, StepResult& result) {
    const ConstTensorView all_rows = builder_.logit_rows();
    row_faults_.assign(logit_rows_.size(), std::nullopt);
    for (int64_t begin = 0; begin < all_rows.dim(0); begin += rows_at_once_) {
        const ScratchArena::Scope scope(scratch_);
        const ConstTensorView rows =
            all_rows.rows(begin, std::min(rows_at_once_, all_rows.dim(0) - begin));
        const TensorView wanted(
            scratch_.take_array<float>(static_cast<size_t>(rows.dim(0) * hidden.dim(1))),
            DType::f32, {rows.dim(0), hidden.dim(1)});
        ops::gather_rows(*batch.kernels, hidden, rows, wanted);
        const TensorView logits = model_->head(batch, wanted);
        if constexpr (kHasFaultPoints) pretend_faults(logits, begin, result);
        threads_.parallel_for(rows.dim(0), 1, [&](int64_t first, int64_t end, int thread) {
            for (int64_t i = first; i < end; ++i) {
                const auto row = static_cast<size_t>(begin + i);
                const std::span<float> scores(logits.as<float>() + i * logits.stride(0),
                                              static_cast<size_t>(logits.dim(1)));
                row_faults_[row] =
                    use_row(logit_rows_[row], scores, sampler_scratch_[static_cast<size_t>(thread)],
                            result.sequences[logit_rows_[row].entry]);
            }
        });
    }
    accept_tokens(result);
    // Rows of one sequence may have been several threads' work.
    for (size_t row = 0; row < logit_rows_.size(); ++row) {
        if (row_faults_[row]) {
            result.sequences[logit_rows_[row].entry].fault = std::move(row_faults_[row]);
        }
    }
}

// Not by the threads that sampled: others were reading the tokens before, for logprobs of the
// prompt.
void Worker::accept_tokens(const StepResult& result) {
    for (const SequenceStep& step : result.sequences) {
        if (step.token_ids.empty()) continue;
        SequenceState& state = sequences_.at(step.sequence);
        for (const int32_t token : step.token_ids) {
            state.token_ids.push_back(token);
            state.sampling.accept(token);
        }
    }
}

// Of the rows from logit_rows_[first] on.
void Worker::pretend_faults(const TensorView& logits, int64_t first, const StepResult& result) {
    for (int64_t i = 0; i < logits.dim(0); ++i) {
        const size_t entry = logit_rows_[static_cast<size_t>(first + i)].entry;
        const SequenceState& state = sequences_.at(result.sequences[entry].sequence);
        if (!fault_point("worker.logits", state.token_ids.front()).not_a_number) continue;
        float* row = logits.as<float>() + i * logits.stride(0);
        std::fill_n(row, logits.dim(1), std::numeric_limits<float>::quiet_NaN());
    }
}

std::optional<Fault> Worker::use_row(const LogitRow& row, std::span<float> logits,
                                     SamplerScratch& scratch, SequenceStep& step) {
    if (row.num_candidates > 0) {
        return find_candidates(logits, row.num_candidates, scratch, step.candidates);
    }
    if (!row.prompt_logprob) return sample_row(logits, scratch, step);
    const SequenceState& state = sequences_.at(step.sequence);
    const size_t place = *row.prompt_logprob;
    const auto position = static_cast<size_t>(step.first_prompt_logprob) + place;
    return score_token(logits, state.token_ids[position], *state.sampling.params().prompt_logprobs,
                       scratch, step.prompt_logprobs[place]);
}

std::optional<Fault> Worker::sample_row(std::span<float> logits, SamplerScratch& scratch,
                                        SequenceStep& step) {
    SequenceState& state = sequences_.at(step.sequence);
    Result<SampledToken> sampled = sample(state.sampling, logits, scratch);
    if (!sampled) return sampled.fault();
    step.token_ids.push_back(sampled->token_id);
    if (sampled->logprobs) step.logprobs.push_back(std::move(*sampled->logprobs));
    return std::nullopt;
}

}  // namespace nvllm
