// Events of a model into its families, and its engine's stats at a scrape.
#include "lib/server/operations/model_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm::server {
namespace {

constexpr std::array<const char*, kNumAbortCauses> kAbortCauses = {
    "disconnect", "write_stall", "deadline", "queue_timeout", "shutdown", "operator", "unknown"};
constexpr std::array<const char*, kNumAbortStates> kAbortStates = {"queued", "prefill", "decode"};
constexpr std::array<const char*, kNumRecoveryLevels> kRecoveryLevels = {
    "adjust", "request", "worker", "process", "operator"};
constexpr std::array kFinishReasons = {FinishReason::stop, FinishReason::length,
                                       FinishReason::cancelled, FinishReason::error};

AbortState state_of(const RequestTimes& times) {
    if (times.first_token_s) return AbortState::decode;
    return times.first_scheduled_s ? AbortState::prefill : AbortState::queued;
}

// From one moment to a later one, when both came.
void observe_between(Histogram& histogram, const std::optional<double>& from_s,
                     const std::optional<double>& to_s) {
    if (from_s && to_s) histogram.observe(std::max(0.0, *to_s - *from_s));
}

uint64_t count_of(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(0, value)); }

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

std::string sum_of(const std::vector<int32_t>& blocks) {
    int64_t total = 0;
    for (const int32_t one : blocks) total += one;
    return fmt::format("{}", total);
}

// A tier appears with the first block that it has.
void show_tier(CacheFamilies& families, const std::string& model, const std::string& tier,
               const TierStats& stats) {
    if (stats.blocks_held + stats.blocks_kept == 0) return;
    const auto moved = [&](const char* event, int64_t count) {
        families.tier_moves.with({model, tier, event}).raise_to(count_of(count));
    };
    families.tier_blocks.with({model, tier}).set(static_cast<double>(stats.blocks_held));
    moved("kept", stats.blocks_kept);
    moved("brought back", stats.blocks_back);
    moved("dropped", stats.blocks_dropped);
    families.tier_hit_tokens.with({model, tier}).raise_to(count_of(stats.hit_tokens));
}

}  // namespace

const char* abort_cause_name(AbortCause cause) { return kAbortCauses[static_cast<size_t>(cause)]; }
const char* abort_state_name(AbortState state) { return kAbortStates[static_cast<size_t>(state)]; }
const char* recovery_level_name(RecoveryLevel level) {
    return kRecoveryLevels[static_cast<size_t>(level)];
}

ModelMetrics::ModelMetrics(const std::string& name, ModelFamilies& families, VllmFamilies* vllm)
    : name_(name),
      families_(families),
      vllm_(vllm),
      adapters_(name, families, vllm),
      prompt_tokens_(families.prompt_tokens.with({name})),
      cached_prompt_tokens_(families.prompt_token_sources.with({name, "local_cache_hit"})),
      computed_prompt_tokens_(families.prompt_token_sources.with({name, "local_compute"})),
      generated_tokens_(families.generated_tokens.with({name})),
      swapped_bytes_(families.swapped_bytes.with({name})),
      rank_bytes_(families.rank_bytes.with({name})),
      dropped_experts_(families.dropped_experts.with({name})),
      device_resets_(families.device_resets.with({name})),
      first_token_(families.first_token.with({name})),
      inter_token_(families.inter_token.with({name})),
      step_time_(families.step_time.with({name})),
      step_tokens_(families.step_tokens.with({name})),
      batch_size_(families.batch_size.with({name})) {
    // A rate needs a first value of 0: what may come is there from the beginning.
    for (const char* level : kRecoveryLevels) families_.recoveries.with({name_, level});
    for (const std::string_view reason : kRejectionReasons)
        families_.rejected.with({name_, reason});
    for (HistogramFamily* family :
         {&families_.abort_latency, &families_.request_time, &families_.queue_time,
          &families_.prefill_time, &families_.decode_time, &families_.inference_time,
          &families_.output_token_time, &families_.prefill_token_time,
          &families_.request_prompt_tokens, &families_.request_generated_tokens,
          &families_.request_longest_answer, &families_.request_n, &families_.request_max_tokens}) {
        family->with({name_});
    }
}

void ModelMetrics::set_engine(std::function<EngineStats()> stats) {
    const std::lock_guard lock(engine_mutex_);
    stats_ = std::move(stats);
}

void ModelMetrics::set_cache_config(const EngineConfig& config, const MemoryPlan& plan) {
    if (config.lora.is_asked_for()) adapters_.enable(config.lora.slots());
    if (vllm_ == nullptr) return;
    vllm_->cache_config_info
        .with({"0", name_, fmt::format("{}", plan.block_size), dtype_name(plan.kv_dtype),
               config.kv_cache.cache.enable_prefix_caching ? "True" : "False",
               sum_of(plan.num_blocks), sum_of(plan.num_host_blocks),
               fmt::format("{}", plan.swap_bytes), config.kv_cache.cache.eviction})
        .set(1.0);
}

void ModelMetrics::observe_step(const StepRecord& step) {
    step_time_.observe(step.step_ms / 1000.0);
    step_tokens_.observe(step.num_tokens);
    batch_size_.observe(step.num_sequences);
    if (step.swapped_bytes > 0) swapped_bytes_.add(step.swapped_bytes);
    if (step.rank_bytes > 0) rank_bytes_.add(step.rank_bytes);
    if (step.dropped_experts > 0) dropped_experts_.add(count_of(step.dropped_experts));
}

void ModelMetrics::rejected(std::string_view reason) {
    families_.rejected.with({name_, reason}).add();
}

void ModelMetrics::recovered(RecoveryLevel level) {
    families_.recoveries.with({name_, recovery_level_name(level)}).add();
}

void ModelMetrics::accepted() {
    const std::lock_guard lock(mutex_);
    ++counts_.accepted;
    ++counts_.in_flight;
}

void ModelMetrics::first_token(const RequestOutput& output, int64_t num_prompt_tokens) {
    const uint64_t num_cached = count_of(output.num_cached_tokens);
    prompt_tokens_.add(count_of(num_prompt_tokens));
    cached_prompt_tokens_.add(num_cached);
    computed_prompt_tokens_.add(count_of(num_prompt_tokens - output.num_cached_tokens));
    families_.cached_prompt_tokens.with({name_}).add(num_cached);
    families_.tokens_without_state.with({name_}).add(count_of(output.num_without_state));
    observe_between(first_token_, output.times.arrival_s, output.times.first_token_s);
}

void ModelMetrics::ended(const FinishedRequest& request) {
    {
        const std::lock_guard lock(mutex_);
        --counts_.in_flight;
        ++counts_.ended[static_cast<size_t>(request.reason)];
        if (request.reason == FinishReason::cancelled) {
            ++counts_.aborted[static_cast<size_t>(request.cause)]
                             [static_cast<size_t>(state_of(request.times))];
        }
    }
    if (request.abort_latency_s) {
        families_.abort_latency.with({name_}).observe(*request.abort_latency_s);
    }
    observe_times(request);
    observe_sizes(request);
}

void ModelMetrics::observe_times(const FinishedRequest& request) {
    const RequestTimes& times = request.times;
    const std::optional<double> arrival_s = times.arrival_s;
    observe_between(families_.request_time.with({name_}), arrival_s, times.finished_s);
    observe_between(families_.queue_time.with({name_}), arrival_s, times.first_scheduled_s);
    observe_between(families_.prefill_time.with({name_}), times.first_scheduled_s,
                    times.first_token_s);
    observe_between(families_.decode_time.with({name_}), times.first_token_s, times.finished_s);
    observe_between(families_.inference_time.with({name_}), times.first_scheduled_s,
                    times.finished_s);
    if (times.first_token_s && times.finished_s && request.longest_answer > 1) {
        const double decode_s = std::max(0.0, *times.finished_s - *times.first_token_s);
        families_.output_token_time.with({name_}).observe(
            decode_s / static_cast<double>(request.longest_answer - 1));
    }
    if (times.first_scheduled_s && times.first_token_s && request.num_prompt_tokens > 0) {
        const double prefill_s = std::max(0.0, *times.first_token_s - *times.first_scheduled_s);
        families_.prefill_token_time.with({name_}).observe(
            prefill_s / static_cast<double>(request.num_prompt_tokens));
    }
}

void ModelMetrics::observe_sizes(const FinishedRequest& request) {
    const auto observe = [&](HistogramFamily& family, int64_t value) {
        family.with({name_}).observe(static_cast<double>(value));
    };
    observe(families_.request_prompt_tokens, request.num_prompt_tokens);
    observe(families_.request_generated_tokens, request.num_generated_tokens);
    observe(families_.request_longest_answer, request.longest_answer);
    observe(families_.request_n, request.n);
    if (request.max_tokens) observe(families_.request_max_tokens, *request.max_tokens);
}

void ModelMetrics::refresh() {
    show_requests();
    const std::lock_guard lock(engine_mutex_);
    if (stats_) {
        show_engine(stats_());
    } else {
        forget_engine();
    }
}

void ModelMetrics::show_requests() {
    RequestCounts counts;
    {
        const std::lock_guard lock(mutex_);
        counts = counts_;
    }
    families_.accepted.with({name_}).raise_to(counts.accepted);
    families_.in_flight.with({name_}).set(static_cast<double>(counts.in_flight));
    for (const FinishReason reason : kFinishReasons) {
        const uint64_t count = counts.ended[static_cast<size_t>(reason)];
        const char* word = finish_reason_name(reason);
        if (vllm_ != nullptr) vllm_->request_success.with({"0", name_, word}).raise_to(count);
        if (reason == FinishReason::cancelled) continue;
        families_.finished.with({name_, word}).raise_to(count);
    }
    for (size_t cause = 0; cause < kNumAbortCauses; ++cause) {
        for (size_t state = 0; state < kNumAbortStates; ++state) {
            families_.aborted.with({name_, kAbortCauses[cause], kAbortStates[state]})
                .raise_to(counts.aborted[cause][state]);
        }
    }
}

void ModelMetrics::show_engine(const EngineStats& stats) {
    const SchedulerStats& scheduler = stats.scheduler;
    const CacheStats& cache = stats.cache;
    const auto set = [&](GaugeFamily& family, double value) { family.with({name_}).set(value); };
    const auto raise = [&](CounterFamily& family, int64_t value) {
        family.with({name_}).raise_to(count_of(value));
    };
    set(families_.running, scheduler.num_running);
    set(families_.waiting, scheduler.num_waiting);
    set(families_.paused, scheduler.num_paused);
    set(families_.swapped, scheduler.num_swapped);
    set(families_.token_budget, scheduler.token_budget);
    set(families_.heartbeat, stats.seconds_since_heartbeat);
    set(families_.cache_usage, ratio(cache.blocks.used, cache.blocks.total));
    set(families_.fragmentation, stats.fragmentation);
    set(families_.hit_ratio,
        ratio(static_cast<double>(cache.hit_tokens), static_cast<double>(cache.queried_tokens)));
    families_.blocks.with({name_, "used"}).set(cache.blocks.used);
    families_.blocks.with({name_, "cached"}).set(cache.blocks.cached);
    families_.blocks.with({name_, "free"}).set(cache.blocks.free);
    show_tier(families_, name_, "host", cache.host_tier);
    show_tier(families_, name_, "disk", cache.disk_tier);
    raise(families_.queried_tokens, cache.queried_tokens);
    raise(families_.hit_tokens, cache.hit_tokens);
    raise(families_.evictions, cache.blocks.evictions);
    raise(families_.preemptions, scheduler.preemptions);
    raise(families_.recomputed_tokens, scheduler.recomputed_tokens);
    raise(families_.empty_steps, scheduler.stalled_steps);
    raise(families_.worker_resets, scheduler.worker_resets);
    raise(families_.device_sampled, stats.device.sampled_rows);
    raise(families_.graph_captures, stats.device.graph_captures);
    raise(families_.graph_launches, stats.device.graph_launches);
    show_speculation(scheduler.speculation);
    adapters_.show(scheduler.adapters);
    for (size_t i = 0; i < stats.replicas.size(); ++i) show_replica(i, stats.replicas[i]);
    const FaultCounts& faults = stats.faults;
    raise(families_.nonfinite_logits, faults.nonfinite_rows);
    raise(families_.worker_restarts, faults.worker_restarts);
    raise(families_.out_of_memory, faults.out_of_memory);
    const auto recovered = [&](RecoveryLevel level, int64_t count) {
        families_.recoveries.with({name_, recovery_level_name(level)}).raise_to(count_of(count));
    };
    recovered(RecoveryLevel::adjust, faults.out_of_memory);
    recovered(RecoveryLevel::request, faults.nonfinite_rows);
    recovered(RecoveryLevel::worker, faults.worker_restarts + faults.weight_reloads);
}

void ModelMetrics::show_replica(size_t index, const ReplicaStats& stats) {
    const std::string replica = fmt::format("{}", index);
    const auto set = [&](GaugeFamily& family, double value) {
        family.with({name_, replica}).set(value);
    };
    const auto raise = [&](CounterFamily& family, int64_t value) {
        family.with({name_, replica}).raise_to(count_of(value));
    };
    set(families_.replica_up, stats.state == EngineState::running ? 1.0 : 0.0);
    set(families_.replica_running, stats.num_running);
    set(families_.replica_waiting, stats.num_waiting);
    set(families_.replica_cache_usage, ratio(stats.blocks.used, stats.blocks.total));
    raise(families_.replica_requests, stats.num_routed);
    raise(families_.replica_queried_tokens, stats.queried_tokens);
    raise(families_.replica_hit_tokens, stats.hit_tokens);
    num_replicas_ = std::max(num_replicas_, index + 1);
}

// Positions appear when a token was accepted there, and those before them with it.
void ModelMetrics::show_speculation(const SpeculationStats& stats) {
    families_.drafts.with({name_}).raise_to(count_of(stats.drafts));
    families_.draft_tokens.with({name_}).raise_to(count_of(stats.draft_tokens));
    families_.accepted_draft_tokens.with({name_}).raise_to(count_of(stats.accepted_tokens));
    for (size_t position = 0; position < stats.accepted_per_position.size(); ++position) {
        const int64_t accepted = stats.accepted_per_position[position];
        if (accepted == 0) break;
        families_.accepted_per_position.with({name_, fmt::format("{}", position)})
            .raise_to(count_of(accepted));
    }
}

void ModelMetrics::forget_engine() {
    adapters_.forget();
    for (GaugeFamily* family :
         {&families_.running, &families_.waiting, &families_.paused, &families_.swapped,
          &families_.token_budget, &families_.heartbeat, &families_.cache_usage,
          &families_.fragmentation, &families_.hit_ratio}) {
        family->with({name_}).forget();
    }
    for (const char* state : {"used", "cached", "free"}) {
        families_.blocks.with({name_, state}).forget();
    }
    for (const char* tier : {"host", "disk"}) families_.tier_blocks.with({name_, tier}).forget();
    for (size_t i = 0; i < num_replicas_; ++i) {
        for (GaugeFamily* family : {&families_.replica_up, &families_.replica_running,
                                    &families_.replica_waiting, &families_.replica_cache_usage}) {
            family->with({name_, fmt::format("{}", i)}).forget();
        }
    }
}

}  // namespace nvllm::server
