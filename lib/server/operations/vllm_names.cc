// vLLM's names for what we count, as its tools and dashboards ask for them.
#include "lib/server/operations/histogram_buckets.h"
#include "lib/server/operations/metric_families.h"

namespace nvllm::server {
namespace {

// All replicas of a model are one engine here; nvllm_replica_* tells them apart.
const std::string kEngine = "engine=\"0\"";

MetricView view(std::string name, std::string help, std::vector<double> edges = {}) {
    return {std::move(name), std::move(help), kEngine, std::move(edges)};
}

void show_gauges_and_counters(MetricsRegistry& registry, const ModelFamilies& native) {
    registry.view(native.running, view("vllm:num_requests_running", "Sequences being computed."));
    registry.view(native.waiting, view("vllm:num_requests_waiting", "Sequences that wait."));
    registry.view(native.cache_usage,
                  view("vllm:kv_cache_usage_perc", "Used share of the key-value blocks, 0 to 1."));
    registry.view(native.cache_usage,
                  view("vllm:gpu_cache_usage_perc", "The older name of vllm:kv_cache_usage_perc."));
    registry.view(native.prompt_tokens, view("vllm:prompt_tokens_total", "Prompt tokens."));
    registry.view(native.cached_prompt_tokens,
                  view("vllm:prompt_tokens_cached_total", "Prompt tokens found in the cache."));
    registry.view(native.prompt_token_sources,
                  view("vllm:prompt_tokens_by_source_total", "Prompt tokens, by their source."));
    registry.view(native.generated_tokens, view("vllm:generation_tokens_total", "Answer tokens."));
    registry.view(native.preemptions, view("vllm:num_preemptions_total", "Preemptions."));
    registry.view(native.queried_tokens,
                  view("vllm:prefix_cache_queries_total", "Tokens looked up in the cache."));
    registry.view(native.hit_tokens,
                  view("vllm:prefix_cache_hits_total", "Tokens found in the cache."));
    registry.view(native.nonfinite_logits,
                  view("vllm:corrupted_requests_total", "Sequences with logits not finite."));
    registry.view(native.rejected,
                  view("vllm:admission_rejections_total", "Requests refused, by the reason."));
}

void show_speculation(MetricsRegistry& registry, const ModelFamilies& native) {
    registry.view(native.drafts,
                  view("vllm:spec_decode_num_drafts_total", "Verifications of proposed tokens."));
    registry.view(native.draft_tokens,
                  view("vllm:spec_decode_num_draft_tokens_total", "Proposed tokens."));
    registry.view(native.accepted_draft_tokens,
                  view("vllm:spec_decode_num_accepted_tokens_total", "Accepted tokens."));
    registry.view(native.accepted_per_position,
                  view("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                       "Accepted tokens, by their position."));
}

void show_times(MetricsRegistry& registry, const ModelFamilies& native) {
    registry.view(native.first_token, view("vllm:time_to_first_token_seconds",
                                           "Time to the first token.", kVllmFirstTokenEdges));
    registry.view(native.inter_token, view("vllm:inter_token_latency_seconds",
                                           "Time between two tokens.", kVllmInterTokenEdges));
    registry.view(native.inter_token, view("vllm:time_per_output_token_seconds",
                                           "The older name of vllm:inter_token_latency_seconds.",
                                           kVllmInterTokenEdges));
    registry.view(native.output_token_time,
                  view("vllm:request_time_per_output_token_seconds",
                       "Mean time between two tokens of a request.", kVllmInterTokenEdges));
    registry.view(native.request_time, view("vllm:e2e_request_latency_seconds",
                                            "Time from arrival to end.", kVllmRequestEdges));
    registry.view(native.queue_time, view("vllm:request_queue_time_seconds",
                                          "Time from arrival to first step.", kVllmRequestEdges));
    registry.view(native.prefill_time,
                  view("vllm:request_prefill_time_seconds", "Time from first step to first token.",
                       kVllmRequestEdges));
    registry.view(native.decode_time, view("vllm:request_decode_time_seconds",
                                           "Time from first token to end.", kVllmRequestEdges));
    registry.view(native.inference_time, view("vllm:request_inference_time_seconds",
                                              "Time from first step to end.", kVllmRequestEdges));
    registry.view(native.prefill_token_time,
                  view("vllm:time_per_prefill_token_request_seconds",
                       "Prefill time for each prompt token.", kVllmPrefillTokenEdges));
}

void show_sizes(MetricsRegistry& registry, const ModelFamilies& native) {
    registry.view(native.request_prompt_tokens,
                  view("vllm:request_prompt_tokens", "Prompt tokens of a request."));
    registry.view(native.request_generated_tokens,
                  view("vllm:request_generation_tokens", "Answer tokens of a request."));
    registry.view(native.request_longest_answer,
                  view("vllm:request_max_num_generation_tokens",
                       "Answer tokens of a request's longest continuation."));
    registry.view(native.request_n, view("vllm:request_params_n", "The parameter n."));
    registry.view(native.request_max_tokens,
                  view("vllm:request_params_max_tokens", "The parameter max_tokens."));
    registry.view(native.step_tokens,
                  view("vllm:iteration_tokens_total", "Tokens computed in a step."));
}

}  // namespace

VllmFamilies::VllmFamilies(MetricsRegistry& registry, const ModelFamilies& native)
    : request_success(registry.counter("vllm:request_success_total",
                                       "Requests that ended, by the reason.",
                                       {"engine", "model_name", "finished_reason"})),
      cache_config_info(registry.gauge(
          "vllm:cache_config_info", "Settings of the key-value cache.",
          {"engine", "model_name", "block_size", "cache_dtype", "enable_prefix_caching",
           "num_gpu_blocks", "num_cpu_blocks", "swap_space_bytes", "eviction_policy"})),
      lora_requests_info(registry.gauge(
          "vllm:lora_requests_info", "Adapters that requests have, by name: when they were so.",
          {"engine", "model_name", "max_lora", "waiting_lora_adapters", "running_lora_adapters"})) {
    show_gauges_and_counters(registry, native);
    show_speculation(registry, native);
    show_times(registry, native);
    show_sizes(registry, native);
}

}  // namespace nvllm::server
