// The native names.
#include "lib/server/operations/metric_families.h"

#include "lib/server/operations/histogram_buckets.h"

namespace nvllm::server {
namespace {

const std::string kModel = "model_name";
const std::string kReplica = "replica";

}  // namespace

RequestFamilies::RequestFamilies(MetricsRegistry& registry)
    : accepted(registry.counter("nvllm_requests_accepted_total",
                                "Requests given to the engine. Equals the finished, aborted and "
                                "in flight together.",
                                {kModel})),
      finished(registry.counter("nvllm_requests_finished_total",
                                "Requests that came to an end by themselves, by the reason.",
                                {kModel, "reason"})),
      aborted(registry.counter("nvllm_requests_aborted_total",
                               "Requests taken back, by the cause and by how far they had come.",
                               {kModel, "cause", "state"})),
      rejected(registry.counter("nvllm_requests_rejected_total",
                                "Requests refused before they reached the engine, by the reason.",
                                {kModel, "reason"})),
      in_flight(registry.gauge("nvllm_requests_in_flight",
                               "Requests given to the engine that have not ended.", {kModel})),
      running(registry.gauge("nvllm_sequences_running", "Sequences that are being computed.",
                             {kModel})),
      waiting(registry.gauge("nvllm_sequences_waiting",
                             "Sequences that wait, paused and swapped ones included.", {kModel})),
      paused(registry.gauge("nvllm_sequences_paused",
                            "Sequences that gave up their slot and kept their blocks.", {kModel})),
      swapped(registry.gauge("nvllm_sequences_swapped",
                             "Sequences whose blocks lie in host memory.", {kModel})),
      abort_latency(registry.histogram("nvllm_abort_latency_seconds",
                                       "Time from taking a request back to its end.", kAbortEdges,
                                       {kModel})) {}

TokenFamilies::TokenFamilies(MetricsRegistry& registry)
    : prompt_tokens(registry.counter("nvllm_prompt_tokens_total",
                                     "Tokens of prompts whose first answer token came.", {kModel})),
      cached_prompt_tokens(registry.counter("nvllm_cached_prompt_tokens_total",
                                            "Of the prompt tokens, those found in the cache.",
                                            {kModel})),
      tokens_without_state(registry.counter("nvllm_prompt_tokens_without_state_total",
                                            "Prompt tokens computed again because no state was "
                                            "kept behind them, though their keys and values were.",
                                            {kModel})),
      prompt_token_sources(registry.counter("nvllm_prompt_tokens_by_source_total",
                                            "Prompt tokens, by where their keys and values are "
                                            "from.",
                                            {kModel, "source"})),
      generated_tokens(registry.counter("nvllm_generated_tokens_total",
                                        "Tokens of answers, as they were given out.", {kModel})),
      queried_tokens(registry.counter("nvllm_prefix_cache_queried_tokens_total",
                                      "Tokens looked up in the prefix cache.", {kModel})),
      hit_tokens(registry.counter("nvllm_prefix_cache_hit_tokens_total",
                                  "Tokens found in the prefix cache.", {kModel})),
      recomputed_tokens(registry.counter("nvllm_recomputed_tokens_total",
                                         "Tokens computed once more after a preemption.",
                                         {kModel})),
      hit_ratio(registry.gauge("nvllm_prefix_cache_hit_ratio",
                               "Share of looked up tokens that were found, since the start.",
                               {kModel})) {}

LatencyFamilies::LatencyFamilies(MetricsRegistry& registry)
    : first_token(registry.histogram("nvllm_time_to_first_token_seconds",
                                     "Time from arrival to the first token.", kVllmFirstTokenEdges,
                                     {kModel})),
      inter_token(registry.histogram("nvllm_inter_token_seconds",
                                     "Time between two outputs of one continuation.",
                                     kInterTokenEdges, {kModel})),
      request_time(registry.histogram("nvllm_request_seconds",
                                      "Time from a request's arrival to its end.", kRequestEdges,
                                      {kModel})),
      queue_time(registry.histogram("nvllm_request_queue_seconds",
                                    "Time from a request's arrival to its first step.",
                                    kRequestEdges, {kModel})),
      prefill_time(registry.histogram("nvllm_request_prefill_seconds",
                                      "Time from a request's first step to its first token.",
                                      kRequestEdges, {kModel})),
      decode_time(registry.histogram("nvllm_request_decode_seconds",
                                     "Time from a request's first token to its end.", kRequestEdges,
                                     {kModel})),
      inference_time(registry.histogram("nvllm_request_inference_seconds",
                                        "Time from a request's first step to its end.",
                                        kRequestEdges, {kModel})),
      output_token_time(registry.histogram("nvllm_request_seconds_per_token",
                                           "Mean time between two tokens of a request's longest "
                                           "answer.",
                                           kInterTokenEdges, {kModel})),
      prefill_token_time(registry.histogram("nvllm_prefill_seconds_per_token",
                                            "Prefill time of a request for each prompt token.",
                                            kPrefillTokenEdges, {kModel})) {}

SizeFamilies::SizeFamilies(MetricsRegistry& registry, int64_t max_tokens)
    : request_prompt_tokens(registry.histogram("nvllm_request_prompt_tokens",
                                               "Prompt tokens of a request.",
                                               one_two_five_edges(max_tokens), {kModel})),
      request_generated_tokens(
          registry.histogram("nvllm_request_generated_tokens",
                             "Answer tokens of a request, all continuations together.",
                             one_two_five_edges(max_tokens), {kModel})),
      request_longest_answer(
          registry.histogram("nvllm_request_longest_answer_tokens",
                             "Answer tokens of a request's longest continuation.",
                             one_two_five_edges(max_tokens), {kModel})),
      request_n(registry.histogram("nvllm_request_continuations",
                                   "Continuations that a request asked for.",
                                   kVllmNumSequencesBuckets, {kModel})),
      request_max_tokens(registry.histogram("nvllm_request_max_tokens",
                                            "Answer tokens that a request allowed.",
                                            one_two_five_edges(max_tokens), {kModel})) {}

StepFamilies::StepFamilies(MetricsRegistry& registry)
    : step_time(
          registry.histogram("nvllm_step_seconds", "Time that a step took.", kStepEdges, {kModel})),
      step_tokens(registry.histogram("nvllm_step_tokens", "Tokens computed in a step.",
                                     kVllmStepTokenEdges, {kModel})),
      batch_size(registry.histogram("nvllm_batch_size", "Sequences computed in a step.",
                                    kBatchEdges, {kModel})),
      empty_steps(registry.counter("nvllm_empty_steps_total",
                                   "Steps that could plan nothing although work waited.",
                                   {kModel})),
      token_budget(
          registry.gauge("nvllm_token_budget", "Tokens that the next step may have.", {kModel})),
      heartbeat(registry.gauge("nvllm_engine_heartbeat_seconds",
                               "Time since the engine began a step; 0 while it has nothing to do.",
                               {kModel})) {}

SpeculationFamilies::SpeculationFamilies(MetricsRegistry& registry)
    : drafts(registry.counter("nvllm_drafts_total",
                              "Times that proposed tokens of a sequence were verified.", {kModel})),
      draft_tokens(registry.counter("nvllm_draft_tokens_total",
                                    "Proposed tokens that were verified.", {kModel})),
      accepted_draft_tokens(registry.counter("nvllm_accepted_draft_tokens_total",
                                             "Of those, tokens that were accepted.", {kModel})),
      accepted_per_position(registry.counter("nvllm_accepted_draft_tokens_per_position_total",
                                             "Accepted tokens, by their position among those "
                                             "proposed, from 0.",
                                             {kModel, "position"})) {}

AdapterFamilies::AdapterFamilies(MetricsRegistry& registry)
    : adapters(registry.gauge("nvllm_adapters",
                              "LoRA adapters in slots (hot) and in host memory alone (warm).",
                              {kModel, "tier"})),
      adapter_requests(registry.counter("nvllm_adapter_requests_total",
                                        "Requests with an adapter, by where it was when they came.",
                                        {kModel, "tier"})),
      adapter_loads(registry.counter("nvllm_adapter_loads_total",
                                     "Adapters read from disk into host memory.", {kModel})),
      adapter_loaded_bytes(
          registry.counter("nvllm_adapter_loaded_bytes_total", "Bytes of those.", {kModel})),
      adapter_load_ms(registry.counter("nvllm_adapter_load_milliseconds_total",
                                       "Time that it took.", {kModel})),
      adapter_evictions(registry.counter("nvllm_adapter_evictions_total",
                                         "Adapters that left their slot for another one.",
                                         {kModel})),
      adapter_failures(registry.counter("nvllm_adapter_failures_total",
                                        "Adapters that could not be loaded when they were wanted.",
                                        {kModel})) {}

CacheFamilies::CacheFamilies(MetricsRegistry& registry)
    : blocks(registry.gauge("nvllm_kv_blocks",
                            "Key-value blocks: used by sequences, unused but cached, free.",
                            {kModel, "state"})),
      tier_blocks(registry.gauge("nvllm_kv_tier_blocks",
                                 "Cached blocks that lie in a tier behind the device.",
                                 {kModel, "tier"})),
      tier_moves(registry.counter("nvllm_kv_tier_moves_total",
                                  "Cached blocks that a tier behind the device has kept, has "
                                  "brought back, and has dropped for others.",
                                  {kModel, "tier", "event"})),
      tier_hit_tokens(registry.counter("nvllm_kv_tier_hit_tokens_total",
                                       "Tokens found in a tier of the prefix cache and not on the "
                                       "device.",
                                       {kModel, "tier"})),
      cache_usage(registry.gauge("nvllm_kv_cache_usage_ratio",
                                 "Share of the key-value blocks that sequences use.", {kModel})),
      fragmentation(registry.gauge("nvllm_kv_fragmentation_ratio",
                                   "1 - longest run of unused blocks / unused blocks, of the worst "
                                   "cache group; looked at now and then.",
                                   {kModel})),
      evictions(registry.counter("nvllm_kv_evictions_total",
                                 "Cached blocks that were reused for something else.", {kModel})),
      preemptions(registry.counter("nvllm_preemptions_total",
                                   "Sequences that gave way for want of blocks.", {kModel})),
      swapped_bytes(registry.counter("nvllm_swapped_bytes_total",
                                     "Bytes copied to and from host memory.", {kModel})),
      rank_bytes(registry.counter("nvllm_rank_bytes_total",
                                  "Bytes that ranks of a model sent to each other.", {kModel})),
      dropped_experts(registry.counter("nvllm_dropped_expert_choices_total",
                                       "Choices of experts that had no room for another token "
                                       "(--expert-capacity-factor).",
                                       {kModel})),
      device_sampled(registry.counter("nvllm_device_sampled_tokens_total",
                                      "Tokens that were chosen where the logits lay.", {kModel})),
      graph_captures(registry.counter("nvllm_graph_captures_total",
                                      "Shapes of steps captured as graphs.", {kModel})),
      graph_launches(
          registry.counter("nvllm_graph_launches_total", "Steps that ran as graphs.", {kModel})) {}

FaultFamilies::FaultFamilies(MetricsRegistry& registry)
    : nonfinite_logits(registry.counter("nvllm_nonfinite_logits_total",
                                        "Sequences ended because their logits were not finite "
                                        "numbers.",
                                        {kModel})),
      worker_resets(registry.counter("nvllm_worker_resets_total",
                                     "Times everybody started over from the tokens they had.",
                                     {kModel})),
      worker_restarts(registry.counter("nvllm_worker_restarts_total",
                                       "Times a worker was started again.", {kModel})),
      recoveries(registry.counter("nvllm_recoveries_total",
                                  "Faults that were recovered from, by how much was done for it.",
                                  {kModel, "level"})),
      out_of_memory(registry.counter("nvllm_out_of_memory_total",
                                     "Times memory ran out, of the device or the host.", {kModel})),
      device_resets(registry.counter("nvllm_device_resets_total",
                                     "Times a device was lost and opened again.", {kModel})) {}

ReplicaFamilies::ReplicaFamilies(MetricsRegistry& registry)
    : replica_up(registry.gauge("nvllm_replica_up",
                                "1 while the replica computes, 0 while its worker starts again, "
                                "hangs or is lost for good.",
                                {kModel, kReplica})),
      replica_requests(registry.counter("nvllm_replica_requests_total",
                                        "Requests that the replica was given.",
                                        {kModel, kReplica})),
      replica_running(registry.gauge("nvllm_replica_sequences_running",
                                     "Sequences that the replica computes.", {kModel, kReplica})),
      replica_waiting(registry.gauge("nvllm_replica_sequences_waiting",
                                     "Sequences that wait at the replica.", {kModel, kReplica})),
      replica_cache_usage(registry.gauge("nvllm_replica_kv_cache_usage_ratio",
                                         "Used share of the replica's key-value blocks.",
                                         {kModel, kReplica})),
      replica_queried_tokens(registry.counter("nvllm_replica_prefix_cache_queried_tokens_total",
                                              "Tokens looked up in the replica's prefix cache.",
                                              {kModel, kReplica})),
      replica_hit_tokens(registry.counter("nvllm_replica_prefix_cache_hit_tokens_total",
                                          "Tokens found in the replica's prefix cache.",
                                          {kModel, kReplica})) {}

ModelFamilies::ModelFamilies(MetricsRegistry& registry, int64_t max_tokens)
    : RequestFamilies(registry),
      TokenFamilies(registry),
      LatencyFamilies(registry),
      SizeFamilies(registry, max_tokens),
      StepFamilies(registry),
      SpeculationFamilies(registry),
      AdapterFamilies(registry),
      CacheFamilies(registry),
      FaultFamilies(registry),
      ReplicaFamilies(registry) {}

}  // namespace nvllm::server
