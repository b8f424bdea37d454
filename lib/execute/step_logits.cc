// Lists the rows of logits, hands them to the device or the host, and collects the choices.
#include "lib/execute/step_logits.h"

#include <algorithm>
#include <limits>

#include "kernels/host/thread_pool.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

void add_token(SampledToken&& sampled, SequenceStep& step) {
    step.token_ids.push_back(sampled.token_id);
    if (sampled.logprobs) step.logprobs.push_back(std::move(*sampled.logprobs));
}

// Takes the choice of a row. A fault after accepted drafts ends the step before it: the next step
// computes the row again and meets the fault there, as it would without drafts.
std::optional<Fault> take_choice(const LogitRow& row, Result<SampledToken>&& choice,
                                 SequenceStep& step) {
    if (choice) {
        add_token(std::move(*choice), step);
        return std::nullopt;
    }
    if (row.draft_row.value_or(0) > 0) return std::nullopt;
    return choice.fault();
}

void list_accepted(StepInFlight& step) {
    for (const auto& [entry, path] : step.paths) {
        StepExtras& accepted = step.result.extras.emplace_back();
        accepted.entry = static_cast<uint32_t>(entry);
        accepted.accepted_rows = path.rows;
    }
}

}  // namespace

StepLogits::StepLogits(const ComputeDevice& device, ThreadPool& threads, WorkerSequences& sequences,
                       ModelRunner& runner, HostRows& host)
    : device_(device),
      threads_(threads),
      sequences_(sequences),
      runner_(runner),
      host_(host),
      sampler_scratch_(static_cast<size_t>(threads.num_threads())) {}

const WorkerSequence& StepLogits::sequence_of(const StepInFlight& step, const LogitRow& row) const {
    return sequences_.at(step.result.sequences[row.entry].sequence);
}

// In the order of BatchBuilder::logit_rows().
void StepLogits::list_rows(const BatchPlan& plan, const PlanExtras& extras, StepInFlight& step) {
    states_on_path_.clear();
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        SequenceStep& result = step.result.sequences[i];
        const WorkerSequence& sequence = sequences_.at(plan.entries[i].sequence);
        if (sequence.refusal) result.fault = sequence.refusal;
        const auto leading = static_cast<size_t>(runner_.rows()[i].num_leading_logits);
        result.prompt_logprobs.resize(leading);
        result.first_prompt_logprob = plan.entries[i].first + 1;
        for (size_t row = 0; row < leading; ++row) step.logit_rows.push_back({i, row});
        list_last_rows(i, plan.entries[i], extras, step);
    }
    std::stable_partition(step.logit_rows.begin(), step.logit_rows.end(),
                          [](const LogitRow& row) { return row.on_device; });
    step.row_faults.assign(step.logit_rows.size(), std::nullopt);
}

void StepLogits::list_last_rows(size_t entry, const PlanEntry& planned, const PlanExtras& extras,
                                StepInFlight& step) {
    const BatchRow& batch_row = runner_.rows()[entry];
    const DraftTokens& drafts = extras.drafts(entry);
    const size_t first = step.logit_rows.size();
    for (int32_t i = 0; i < batch_row.num_last_logits; ++i) {
        LogitRow& row = step.logit_rows.emplace_back();
        row.entry = entry;
        row.num_candidates = planned.num_candidates;
        row.on_device = batch_row.logits_first;
        if (drafts.empty()) continue;
        row.draft_row = i;
        if (i == 0) {
            DraftPath& path = step.paths[entry];
            if (row.on_device) continue;
            states_on_path_.emplace(entry, PathState{sequence_of(step, row).sampling, &path});
            continue;
        }
        row.parent_row = drafts.parent(i);
        row.draft_token = drafts.token_ids[static_cast<size_t>(i - 1)];
        row.depth = step.logit_rows[first + static_cast<size_t>(row.parent_row)].depth + 1;
    }
}

template <typename Use>
void StepLogits::for_each_chunk(const ForwardContext& batch, const ComputedStep& computed,
                                const StepInFlight& step, Use&& use) {
    const std::vector<LogitRow>& rows = step.logit_rows;
    const auto num_rows = std::ssize(rows);
    const auto num_on_device = std::ranges::count_if(rows, &LogitRow::on_device);
    for (int64_t begin = 0; begin < num_rows;) {
        const ScratchArena::Scope scope(*batch.context->scratch);
        const bool on_device = begin < num_on_device;
        const int64_t alike = (on_device ? num_on_device : num_rows) - begin;
        const int64_t count = std::min(runner_.max_logit_rows(), alike);
        use(runner_.logits(batch, computed, begin, count), static_cast<size_t>(begin), on_device);
        begin += count;
    }
}

void StepLogits::use(const ForwardContext& batch, const ComputedStep& computed,
                     const BatchPlan& plan, const PlanExtras& extras, StepInFlight& step) {
    const Context& context = *batch.context;
    list_rows(plan, extras, step);
    step.sampler.begin();
    for_each_chunk(batch, computed, step,
                   [&](const TensorView& logits, size_t first, bool on_device) {
                       if constexpr (kHasFaultPoints) inject_faults(context, logits, first, step);
                       if (on_device) {
                           use_on_device(context, extras, logits, first, step);
                       } else {
                           use_on_host(context, extras, logits, first, step);
                       }
                   });
    expect_tokens(context, step);
}

void StepLogits::compute(const ForwardContext& batch, const ComputedStep& computed,
                         const BatchPlan& plan, const PlanExtras& extras, StepInFlight& step) {
    list_rows(plan, extras, step);
    for_each_chunk(batch, computed, step, [](const TensorView&, size_t, bool) {});
}

void StepLogits::use_on_device(const Context& context, const PlanExtras& extras,
                               const TensorView& logits, size_t begin, StepInFlight& step) {
    states_.clear();
    expecting_.clear();
    token_masks_.clear();
    for (size_t i = begin; i < begin + static_cast<size_t>(logits.dim(0)); ++i) {
        const LogitRow& row = step.logit_rows[i];
        const WorkerSequence& sequence = sequence_of(step, row);
        states_.push_back(&sequence.sampling);
        expecting_.push_back(static_cast<uint8_t>(sequence.num_expected + row.depth));
        token_masks_.push_back(extras.token_mask(row.entry, row.draft_row.value_or(0)));
    }
    step.sampler.sample(context, states_, logits, expecting_, token_masks_);
}

void StepLogits::use_on_host(const Context& context, const PlanExtras& extras,
                             const TensorView& computed, size_t begin, StepInFlight& step) {
    const ConstTensorView fetched = host_.fetch(context, computed);
    // Sampling writes into its rows: the arena's, or the copy.
    const TensorView logits(const_cast<void*>(fetched.data), fetched);
    const auto num_rows = static_cast<size_t>(logits.dim(0));
    run_starts_.clear();
    for (size_t i = 0; i < num_rows; ++i) {
        // The rows of a sequence's drafts depend on each other.
        const bool continues = i > 0 && step.logit_rows[begin + i].draft_row.value_or(0) > 0;
        if (!continues) run_starts_.push_back(i);
    }
    const auto num_runs = std::ssize(run_starts_);
    run_starts_.push_back(num_rows);
    threads_.parallel_for(num_runs, 1, [&](int64_t first, int64_t end, int thread) {
        const size_t last = run_starts_[static_cast<size_t>(end)];
        for (size_t i = run_starts_[static_cast<size_t>(first)]; i < last; ++i) {
            const LogitRow& row = step.logit_rows[begin + i];
            const std::span<float> scores(
                logits.as<float>() + static_cast<int64_t>(i) * logits.stride(0),
                static_cast<size_t>(logits.dim(1)));
            step.row_faults[begin + i] =
                use_row(row, extras, scores, sampler_scratch_[static_cast<size_t>(thread)],
                        step.result.sequences[row.entry]);
        }
    });
}

std::optional<Fault> StepLogits::use_row(const LogitRow& row, const PlanExtras& extras,
                                         std::span<float> logits, SamplerScratch& scratch,
                                         SequenceStep& step) {
    if (row.num_candidates > 0) {
        return find_candidates(logits, row.num_candidates, scratch, step.candidates);
    }
    if (!row.prompt_logprob) return sample_row(row, extras, logits, scratch, step);
    const WorkerSequence& sequence = sequences_.at(step.sequence);
    const size_t index = *row.prompt_logprob;
    const auto position = static_cast<size_t>(step.first_prompt_logprob) + index;
    return score_token(logits, sequence.token_ids[position],
                       *sequence.sampling.params().prompt_logprobs, scratch,
                       step.prompt_logprobs[index]);
}

std::optional<Fault> StepLogits::sample_row(const LogitRow& row, const PlanExtras& extras,
                                            std::span<float> logits, SamplerScratch& scratch,
                                            SequenceStep& step) {
    const auto mask = extras.token_mask(row.entry, row.draft_row.value_or(0));
    if (!row.draft_row) {
        return take_choice(
            row, sample(sequences_.at(step.sequence).sampling, logits, scratch, mask), step);
    }
    PathState& at = states_on_path_.at(row.entry);
    if (!at.path->reaches(row, step)) return std::nullopt;
    if (*row.draft_row > 0) at.state.accept(row.draft_token);
    Result<SampledToken> choice = sample(at.state, logits, scratch, mask);
    at.path->take(row, static_cast<bool>(choice));
    return take_choice(row, std::move(choice), step);
}

void StepLogits::expect_tokens(const Context& context, StepInFlight& step) {
    if (step.logit_rows.empty() || !step.logit_rows.front().on_device) return;
    step.sampler.fetch(context);
    for (size_t i = 0; i < step.logit_rows.size() && step.logit_rows[i].on_device; ++i) {
        const LogitRow& row = step.logit_rows[i];
        // How many drafts are accepted is known when the step is finished.
        if (row.draft_row) continue;
        WorkerSequence& sequence = sequences_.at(step.result.sequences[row.entry].sequence);
        ++sequence.num_expected;
        sequence.expected_token = static_cast<const std::byte*>(step.sampler.token_place(i));
    }
}

void StepLogits::finish(StepInFlight& step) {
    take_device_results(step);
    list_accepted(step);
    // Rows of one sequence may have been used by several threads.
    for (size_t i = 0; i < step.logit_rows.size(); ++i) {
        if (!step.row_faults[i]) continue;
        step.result.sequences[step.logit_rows[i].entry].fault = std::move(step.row_faults[i]);
    }
}

void StepLogits::take_device_results(StepInFlight& step) {
    for (size_t i = 0; i < step.logit_rows.size() && step.logit_rows[i].on_device; ++i) {
        const LogitRow& row = step.logit_rows[i];
        SequenceStep& result = step.result.sequences[row.entry];
        ++step.result.device.sampled_rows;
        if (row.draft_row) {
            DraftPath& path = step.paths.at(row.entry);
            if (!path.reaches(row, result)) continue;
            Result<SampledToken> choice = step.sampler.result(i);
            path.take(row, static_cast<bool>(choice));
            step.row_faults[i] = take_choice(row, std::move(choice), result);
            continue;
        }
        step.row_faults[i] = take_choice(row, step.sampler.result(i), result);
        WorkerSequence* known = sequences_.find(result.sequence);
        if (known != nullptr) --known->num_expected;
    }
}

void StepLogits::inject_faults(const Context& context, const TensorView& logits, size_t begin,
                               const StepInFlight& step) {
    const std::vector<float> none(static_cast<size_t>(logits.dim(1)),
                                  std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < logits.dim(0); ++i) {
        const LogitRow& row = step.logit_rows[begin + static_cast<size_t>(i)];
        const int32_t token = sequence_of(step, row).token_ids.front();
        if (!fault_point("worker.logits", token).not_a_number) continue;
        device_.copy_in(context.stream, logits.rows(i, 1).data, none.data(),
                        none.size() * sizeof(float));
    }
}

}  // namespace nvllm
