// Every family of metrics that a model has, declared once for all models of a server.
//
// Native names begin with nvllm_ and carry the label model_name. vLLM's names are views of the same
// counts, with vLLM's labels and bucket edges: nothing is counted twice for them, and what is read
// under both names always agrees.
#pragma once

#include <cstdint>

#include "lib/base/metrics.h"

namespace nvllm::server {

struct ModelFamilies {
    // `most_tokens`: the longest context of any model, for the edges of token counts.
    ModelFamilies(MetricsRegistry& registry, int64_t most_tokens);

    // Requests.
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

    // Tokens.
    CounterFamily& prompt_tokens;
    CounterFamily& cached_prompt_tokens;
    CounterFamily& prompt_token_sources;  // source
    CounterFamily& generated_tokens;
    CounterFamily& queried_tokens;
    CounterFamily& hit_tokens;
    CounterFamily& recomputed_tokens;
    GaugeFamily& hit_ratio;

    // Times of requests.
    HistogramFamily& first_token;
    HistogramFamily& inter_token;
    HistogramFamily& request_time;
    HistogramFamily& queue_time;
    HistogramFamily& prefill_time;
    HistogramFamily& decode_time;
    HistogramFamily& inference_time;
    HistogramFamily& output_token_time;
    HistogramFamily& prefill_token_time;

    // Sizes of requests.
    HistogramFamily& request_prompt_tokens;
    HistogramFamily& request_generated_tokens;
    HistogramFamily& request_longest_answer;
    HistogramFamily& request_n;
    HistogramFamily& request_max_tokens;

    // Steps.
    HistogramFamily& step_time;
    HistogramFamily& step_tokens;
    HistogramFamily& batch_size;
    CounterFamily& empty_steps;
    GaugeFamily& token_budget;
    GaugeFamily& heartbeat;

    // Cache.
    GaugeFamily& blocks;  // state
    GaugeFamily& cache_usage;
    GaugeFamily& fragmentation;
    CounterFamily& evictions;
    CounterFamily& preemptions;
    CounterFamily& swapped_bytes;
    CounterFamily& device_sampled;
    CounterFamily& graph_captures;
    CounterFamily& graph_launches;

    // Faults.
    CounterFamily& nonfinite_logits;
    CounterFamily& worker_resets;
    CounterFamily& worker_restarts;
    CounterFamily& recoveries;  // level
    CounterFamily& out_of_memory;
    CounterFamily& device_resets;
};

// What vLLM counts and nobody else does.
struct VllmFamilies {
    // Shows `native` under vLLM's names as well.
    VllmFamilies(MetricsRegistry& registry, const ModelFamilies& native);

    CounterFamily& request_success;  // finished_reason
    GaugeFamily& cache_config_info;  // settings as labels
};

}  // namespace nvllm::server
