// The loop of an engine with its worker left out.
#include "lib/view/trace/trace_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm::view {
namespace {

// Answers' tokens: above all prompts', and different for neighbouring requests, so that no prompt
// goes on where an answer did.
int32_t answer_token(size_t request) {
    return std::numeric_limits<int32_t>::max() - static_cast<int32_t>(request % (1 << 20));
}

SchedulerConfig scheduler_config(const Trace& trace, const ReplayConfig& config) {
    SchedulerConfig scheduler;
    scheduler.max_num_seqs = config.max_num_seqs;
    scheduler.max_num_batched_tokens = config.max_num_batched_tokens;
    scheduler.policy = config.scheduling_policy;
    scheduler.max_model_len = 2;
    for (const TraceRequest& request : trace.requests) {
        scheduler.max_model_len = std::max(scheduler.max_model_len,
                                           request.num_prompt_tokens + request.num_answer_tokens);
    }
    return scheduler;
}

CacheConfig cache_config(const ReplayConfig& config) {
    CacheConfig cache;
    cache.block_size = config.block_size;
    cache.groups = {{config.num_blocks, 0}};
    cache.enable_prefix_caching = config.enable_prefix_caching;
    cache.hash_key = HashKey{1, 2};  // the same replay every time
    cache.eviction = config.eviction_policy;
    if (config.step.prefill_token_ms > 0.0) {
        cache.eviction_costs.per_token_and_position =
            config.step.prefill_position_ms / config.step.prefill_token_ms;
    }
    return cache;
}

Spread spread_of(std::vector<double> values) {
    if (values.empty()) return {};
    std::ranges::sort(values);
    const auto at = [&](double share) {
        const double rank = std::ceil(share * static_cast<double>(values.size()));
        return values[static_cast<size_t>(std::max(1.0, rank)) - 1];
    };
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return {sum / static_cast<double>(values.size()), at(0.5), at(0.99)};
}

// R. Jain et al., "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
// Shared Computer Systems", 1984.
double jains_index(const std::vector<double>& values) {
    double sum = 0.0;
    double squares = 0.0;
    for (const double value : values) {
        sum += value;
        squares += value * value;
    }
    return squares > 0.0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 0.0;
}

class Replay {
  public:
    Replay(const Trace& trace, const ReplayConfig& config)
        : trace_(trace),
          config_(config),
          cache_(cache_config(config)),
          scheduler_(scheduler_config(trace, config), cache_) {
        result_.config = config;
    }

    ReplayResult run() {
        while (next_ < trace_.requests.size() || scheduler_.has_work()) {
            add_arrivals();
            if (std::optional<BatchPlan> plan = scheduler_.next(now_s_)) {
                execute(*plan);
                continue;
            }
            NVLLM_CHECK(!scheduler_.has_work(), "the scheduler stands still with work to do");
            if (next_ < trace_.requests.size()) {
                now_s_ = std::max(now_s_, trace_.requests[next_].arrival_s);
            }
        }
        return summed_up();
    }

  private:
    void add_arrivals() {
        for (; next_ < trace_.requests.size(); ++next_) {
            const TraceRequest& traced = trace_.requests[next_];
            if (traced.arrival_s > now_s_) return;
            Request request;
            request.id = next_ + 1;
            request.prompt_token_ids = prompt_of(traced);
            request.sampling.max_tokens = traced.num_answer_tokens;
            request.sampling.ignore_eos = true;
            request.priority = traced.priority;
            request.arrival_s = traced.arrival_s;
            const auto ids = scheduler_.add(request);
            if (!ids) {
                ++result_.num_refused;
                continue;
            }
            requests_.push_back(next_);  // ids count from 1 without a hole
            NVLLM_CHECK(ids->front() == requests_.size(), "sequences are numbered in order");
        }
    }

    size_t request_of(SequenceId id) const { return requests_[static_cast<size_t>(id) - 1]; }

    void execute(const BatchPlan& plan) {
        for (const AddedSequence& added : plan.added) count_hits(*scheduler_.find(added.sequence));
        now_s_ += step_ms(plan) / 1000.0;
        StepResult result;
        result.plan_number = plan.number;
        for (const PlanEntry& entry : plan.entries) {
            SequenceStep& step = result.sequences.emplace_back();
            step.sequence = entry.sequence;
            if (entry.output == OutputKind::none) continue;
            step.token_ids = {answer_token(request_of(entry.sequence))};
        }
        const std::vector<StopDecision> decisions = scheduler_.check_stop(result);
        for (const SequenceId id : scheduler_.commit(result, decisions, now_s_)) {
            count_finished(*scheduler_.find(id));
        }
    }

    double step_ms(const BatchPlan& plan) const {
        double total = config_.step.fixed_ms;
        for (const PlanEntry& entry : plan.entries) {
            const TraceRequest& request = trace_.requests[request_of(entry.sequence)];
            const bool decodes = entry.count == 1 && entry.first >= request.num_prompt_tokens;
            total += decodes ? config_.step.decode_sequence_ms
                             : config_.step.prefill_ms(entry.first, entry.count);
        }
        return total;
    }

    // What a preempted sequence finds again is its own.
    void count_hits(const Sequence& sequence) {
        if (sequence.num_preemptions > 0) return;
        const int32_t found = sequence.num_cached_tokens.value_or(0);
        result_.prompt_tokens += sequence.num_prompt_tokens;
        result_.hit_tokens += found;
        result_.saved_prefill_s += config_.step.prefill_ms(0, found) / 1000.0;
        result_.whole_prefill_s += config_.step.prefill_ms(0, sequence.num_prompt_tokens) / 1000.0;
    }

    // Alone in the engine, with nothing cached.
    double alone_s(const TraceRequest& request) const {
        const double chunks =
            std::ceil(double(request.num_prompt_tokens) / double(config_.max_num_batched_tokens));
        const double prefill =
            chunks * config_.step.fixed_ms + config_.step.prefill_ms(0, request.num_prompt_tokens);
        const double decode = (request.num_answer_tokens - 1) *
                              (config_.step.fixed_ms + config_.step.decode_sequence_ms);
        return (prefill + decode) / 1000.0;
    }

    void count_finished(const Sequence& sequence) {
        ++result_.num_finished;
        ttft_.push_back(*sequence.first_token_s - sequence.arrival_s);
        queue_.push_back(*sequence.first_scheduled_s - sequence.arrival_s);
        const double alone = alone_s(trace_.requests[request_of(sequence.id)]);
        slowdown_.push_back((*sequence.finished_s - sequence.arrival_s) / std::max(alone, 1e-9));
    }

    ReplayResult summed_up() {
        const SchedulerStats stats = scheduler_.stats();
        result_.preemptions = stats.preemptions;
        result_.pauses = stats.pauses;
        result_.steps = stats.steps;
        result_.evictions = cache_.stats().blocks.evictions;
        result_.makespan_s = now_s_ - trace_.requests.front().arrival_s;
        result_.ttft_s = spread_of(std::move(ttft_));
        result_.queue_s = spread_of(std::move(queue_));
        result_.fairness = jains_index(slowdown_);
        return result_;
    }

    const Trace& trace_;
    const ReplayConfig config_;
    CacheManager cache_;
    Scheduler scheduler_;
    size_t next_ = 0;               // request to arrive
    std::vector<size_t> requests_;  // by sequence
    double now_s_ = 0.0;
    std::vector<double> ttft_, queue_, slowdown_;
    ReplayResult result_;
};

}  // namespace

ReplayResult replay_trace(const Trace& trace, const ReplayConfig& config) {
    return Replay(trace, config).run();
}

}  // namespace nvllm::view
