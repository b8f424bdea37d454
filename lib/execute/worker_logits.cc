// From hidden states to tokens, logprobs and candidates: rows of logits and who chooses from them.
#include <algorithm>
#include <limits>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/elementwise.h"
#include "lib/base/fault_points.h"
#include "lib/execute/worker.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// Logits of so many rows exist at one time, whatever the batch: 64 rows of a vocabulary of 128,256
// are 33 MB.
constexpr int64_t kLogitRows = 64;
// And so many may, however few sequences run: scoring a prompt reads the output matrix once for so
// many tokens.
constexpr int64_t kMinLogitRows = 16;

void add_token(SampledToken&& sampled, SequenceStep& step) {
    step.token_ids.push_back(sampled.token_id);
    if (sampled.logprobs) step.logprobs.push_back(std::move(*sampled.logprobs));
}

}  // namespace

int64_t Worker::max_logit_rows(int32_t max_num_seqs) {
    return std::clamp<int64_t>(max_num_seqs, kMinLogitRows, kLogitRows);
}

size_t Worker::sampling_scratch_bytes(bool on_cpu, int32_t max_num_seqs, int64_t vocab_size) {
    if (on_cpu) return 0;
    return DeviceSampler::scratch_bytes(max_logit_rows(max_num_seqs), vocab_size);
}

ConstTensorView Worker::fetch(const Context& context, const ConstTensorView& rows) {
    if (device_.is_cpu()) return rows;
    const ScratchArena::Scope scope(scratch_);
    ConstTensorView source = rows;
    if (rows.dtype != DType::f32) {
        const TensorView widened = take_values(context, DType::f32, {rows.dim(0), rows.dim(1)});
        ops::convert(context, rows, widened);
        source = widened;
    }
    const size_t bytes = static_cast<size_t>(source.numel()) * sizeof(float);
    if (bytes > fetched_bytes_) {
        fetched_ = device_.allocate_host(bytes);
        fetched_bytes_ = bytes;
    }
    device_.copy_out(context.stream, fetched_.get(), source.data, bytes);
    device_.synchronize(context.stream);
    return {fetched_.get(), DType::f32, {rows.dim(0), rows.dim(1)}};
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
void Worker::list_rows(const BatchPlan& plan, StepUnderWay& step) {
    StepResult& result = step.result;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const auto leading = static_cast<size_t>(rows_[i].num_leading_logits);
        result.sequences[i].prompt_logprobs.resize(leading);
        result.sequences[i].first_prompt_logprob = plan.entries[i].first + 1;
        for (size_t row = 0; row < leading; ++row) step.logit_rows.push_back({i, row});
        if (rows_[i].wants_logits) {
            step.logit_rows.push_back(
                {i, std::nullopt, plan.entries[i].num_candidates, rows_[i].logits_first});
        }
    }
    std::stable_partition(step.logit_rows.begin(), step.logit_rows.end(),
                          [](const LogitRow& row) { return row.on_device; });
}

TensorView Worker::run_head(const ForwardContext& batch, const TensorView& hidden,
                            const ConstTensorView& places) {
    const TensorView wanted = take_activations(*batch.context, {places.dim(0), hidden.dim(1)});
    ops::gather_rows(*batch.context, hidden, places, wanted);
    return model_->head(batch, wanted);
}

void Worker::use_logits(const ForwardContext& batch, const ComputedStep& computed,
                        StepUnderWay& step) {
    const Context& context = *batch.context;
    const std::vector<LogitRow>& rows = step.logit_rows;
    const auto num_rows = static_cast<int64_t>(rows.size());
    step.row_faults.assign(rows.size(), std::nullopt);
    const auto num_on_device =
        std::count_if(rows.begin(), rows.end(), [](const LogitRow& row) { return row.on_device; });
    step.sampler.begin();
    int64_t begin = 0;
    while (begin < num_rows) {
        const ScratchArena::Scope scope(scratch_);
        const bool on_device = begin < num_on_device;
        const int64_t alike = (on_device ? num_on_device : num_rows) - begin;
        const int64_t count = std::min(rows_at_once_, alike);
        const TensorView logits =
            computed.logits
                ? computed.logits->rows(begin, count)
                : run_head(batch, computed.hidden, builder_.logit_rows().rows(begin, count));
        const auto first = static_cast<size_t>(begin);
        if constexpr (kHasFaultPoints) pretend_faults(context, logits, first, step);
        if (on_device) {
            use_on_device(context, logits, first, step);
        } else {
            use_on_host(context, logits, first, step);
        }
        begin += count;
    }
}

void Worker::use_on_device(const Context& context, const TensorView& logits, size_t begin,
                           StepUnderWay& step) {
    states_.clear();
    expecting_.clear();
    for (size_t row = begin; row < begin + static_cast<size_t>(logits.dim(0)); ++row) {
        const size_t entry = step.logit_rows[row].entry;
        const SequenceState& state = sequences_.at(step.result.sequences[entry].sequence);
        states_.push_back(&state.sampling);
        expecting_.push_back(static_cast<uint8_t>(state.num_expected));
    }
    step.sampler.sample(context, states_, logits, expecting_);
}

void Worker::use_on_host(const Context& context, const TensorView& computed, size_t begin,
                         StepUnderWay& step) {
    const ConstTensorView fetched = fetch(context, computed);
    // Sampling writes into its rows: the arena's, or the copy.
    const TensorView logits(const_cast<void*>(fetched.data), fetched);
    threads_.parallel_for(logits.dim(0), 1, [&](int64_t first, int64_t end, int thread) {
        for (int64_t i = first; i < end; ++i) {
            const size_t row = begin + static_cast<size_t>(i);
            const std::span<float> scores(logits.as<float>() + i * logits.stride(0),
                                          static_cast<size_t>(logits.dim(1)));
            step.row_faults[row] =
                use_row(step.logit_rows[row], scores, sampler_scratch_[static_cast<size_t>(thread)],
                        step.result.sequences[step.logit_rows[row].entry]);
        }
    });
}

void Worker::take_device_results(StepUnderWay& step) {
    for (size_t row = 0; row < step.logit_rows.size() && step.logit_rows[row].on_device; ++row) {
        SequenceStep& sequence = step.result.sequences[step.logit_rows[row].entry];
        Result<SampledToken> sampled = step.sampler.result(row);
        if (sampled) {
            add_token(std::move(*sampled), sequence);
        } else {
            step.row_faults[row] = sampled.fault();
        }
        const auto known = sequences_.find(sequence.sequence);
        if (known != sequences_.end()) --known->second.num_expected;
        ++step.result.device.sampled_rows;
    }
}

// Not by the threads that sampled: others were reading the tokens before, for logprobs of the
// prompt. Some may be forgotten, by a plan that was begun since.
void Worker::accept_tokens(const StepResult& result) {
    for (const SequenceStep& step : result.sequences) {
        const auto known = sequences_.find(step.sequence);
        if (known == sequences_.end()) continue;
        for (const int32_t token : step.token_ids) {
            known->second.token_ids.push_back(token);
            known->second.sampling.accept(token);
        }
    }
}

void Worker::pretend_faults(const Context& context, const TensorView& logits, size_t begin,
                            const StepUnderWay& step) {
    const std::vector<float> none(static_cast<size_t>(logits.dim(1)),
                                  std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < logits.dim(0); ++i) {
        const size_t entry = step.logit_rows[begin + static_cast<size_t>(i)].entry;
        const SequenceState& state = sequences_.at(step.result.sequences[entry].sequence);
        if (!fault_point("worker.logits", state.token_ids.front()).not_a_number) continue;
        device_.copy_in(context.stream, logits.rows(i, 1).data, none.data(),
                        none.size() * sizeof(float));
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
    add_token(std::move(*sampled), step);
    return std::nullopt;
}

}  // namespace nvllm
