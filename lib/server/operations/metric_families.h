// Every family of metrics that a model has, declared once for all models of a server.
//
// Native names begin with nvllm_ and carry the label model_name. vLLM's names are views of the same
// counts, with vLLM's labels and bucket edges: nothing is counted twice for them, and what is read
// under both names always agrees.
#pragma once

#include <cstdint>

#include "lib/base/metrics.h"

namespace nvllm::server {

// Counts of requests and of their sequences.
struct RequestFamilies {
    explicit RequestFamilies(MetricsRegistry& registry);

    CounterFamily& accepted;
    CounterFamily& finished;  // reason
    CounterFamily& aborted;   // cause, state
    CounterFamily& rejected;  // reason
    GaugeFamily& in_flight;
    GaugeFamily& running;
    GaugeFamily& waiting;
    GaugeFamily& paused;
    GaugeFamily& swapped;
    HistogramFamily& abort_latency;
};

// Counts of tokens.
struct TokenFamilies {
    explicit TokenFamilies(MetricsRegistry& registry);

    CounterFamily& prompt_tokens;
    CounterFamily& cached_prompt_tokens;
    CounterFamily& tokens_without_state;
    CounterFamily& prompt_token_sources;  // source
    CounterFamily& generated_tokens;
    CounterFamily& queried_tokens;
    CounterFamily& hit_tokens;
    CounterFamily& recomputed_tokens;
    GaugeFamily& hit_ratio;
};

// Times of requests.
struct LatencyFamilies {
    explicit LatencyFamilies(MetricsRegistry& registry);

    HistogramFamily& first_token;
    HistogramFamily& inter_token;
    HistogramFamily& request_time;
    HistogramFamily& queue_time;
    HistogramFamily& prefill_time;
    HistogramFamily& decode_time;
    HistogramFamily& inference_time;
    HistogramFamily& output_token_time;
    HistogramFamily& prefill_token_time;
};

// Sizes of requests. `max_tokens`: the longest context of any model, for the buckets.
struct SizeFamilies {
    SizeFamilies(MetricsRegistry& registry, int64_t max_tokens);

    HistogramFamily& request_prompt_tokens;
    HistogramFamily& request_generated_tokens;
    HistogramFamily& request_longest_answer;
    HistogramFamily& request_n;
    HistogramFamily& request_max_tokens;
};

// Steps of the engine.
struct StepFamilies {
    explicit StepFamilies(MetricsRegistry& registry);

    HistogramFamily& step_time;
    HistogramFamily& step_tokens;
    HistogramFamily& batch_size;
    CounterFamily& empty_steps;
    GaugeFamily& token_budget;
    GaugeFamily& heartbeat;
};

// Speculative decoding.
struct SpeculationFamilies {
    explicit SpeculationFamilies(MetricsRegistry& registry);

    CounterFamily& drafts;
    CounterFamily& draft_tokens;
    CounterFamily& accepted_draft_tokens;
    CounterFamily& accepted_per_position;  // position
};

// LoRA adapters.
struct AdapterFamilies {
    explicit AdapterFamilies(MetricsRegistry& registry);

    GaugeFamily& adapters;            // tier
    CounterFamily& adapter_requests;  // tier
    CounterFamily& adapter_loads;
    CounterFamily& adapter_loaded_bytes;
    CounterFamily& adapter_load_ms;
    CounterFamily& adapter_evictions;
    CounterFamily& adapter_failures;
};

// The key-value cache and the device.
struct CacheFamilies {
    explicit CacheFamilies(MetricsRegistry& registry);

    GaugeFamily& blocks;             // state
    GaugeFamily& tier_blocks;        // tier
    CounterFamily& tier_moves;       // tier, event
    CounterFamily& tier_hit_tokens;  // tier
    GaugeFamily& cache_usage;
    GaugeFamily& fragmentation;
    CounterFamily& evictions;
    CounterFamily& preemptions;
    CounterFamily& swapped_bytes;
    CounterFamily& rank_bytes;
    CounterFamily& dropped_experts;
    CounterFamily& device_sampled;
    CounterFamily& graph_captures;
    CounterFamily& graph_launches;
};

// Faults and recoveries.
struct FaultFamilies {
    explicit FaultFamilies(MetricsRegistry& registry);

    CounterFamily& nonfinite_logits;
    CounterFamily& worker_resets;
    CounterFamily& worker_restarts;
    CounterFamily& recoveries;  // level
    CounterFamily& out_of_memory;
    CounterFamily& device_resets;
};

// Of a model with several replicas, of each: model, replica.
struct ReplicaFamilies {
    explicit ReplicaFamilies(MetricsRegistry& registry);

    GaugeFamily& replica_up;
    CounterFamily& replica_requests;
    GaugeFamily& replica_running;
    GaugeFamily& replica_waiting;
    GaugeFamily& replica_cache_usage;
    CounterFamily& replica_queried_tokens;
    CounterFamily& replica_hit_tokens;
};

// In the order in which a scrape has them.
struct ModelFamilies : RequestFamilies,
                       TokenFamilies,
                       LatencyFamilies,
                       SizeFamilies,
                       StepFamilies,
                       SpeculationFamilies,
                       AdapterFamilies,
                       CacheFamilies,
                       FaultFamilies,
                       ReplicaFamilies {
    // `max_tokens`: the longest context of any model, for the buckets of token counts.
    ModelFamilies(MetricsRegistry& registry, int64_t max_tokens);
};

// Families that only vLLM has.
struct VllmFamilies {
    // Shows `native` under vLLM's names as well.
    VllmFamilies(MetricsRegistry& registry, const ModelFamilies& native);

    CounterFamily& request_success;   // finished_reason
    GaugeFamily& cache_config_info;   // settings as labels
    GaugeFamily& lora_requests_info;  // names of adapters as labels
};

}  // namespace nvllm::server
