// The only words from compute to bookkeeping: numbers, never tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/tiers/disk_move.h"
#include "lib/request/adapter.h"
#include "lib/request/draft_tokens.h"
#include "lib/request/expert_load.h"
#include "lib/request/request.h"

namespace nvllm {

struct TokenLogprob {
    int32_t token_id = 0;
    float logprob = 0.0f;
};

// The logprob of a chosen token, its rank (1: likeliest) and the likeliest tokens, best first;
// natural logarithms of the model's distribution before penalties, temperature and truncation.
struct SampledLogprobs {
    TokenLogprob chosen;
    int32_t rank = 1;
    std::vector<TokenLogprob> top;
};

struct SequenceStep {
    SequenceId sequence = 0;
    // For OutputKind::sample the accepted draft tokens, then the one chosen after them.
    std::vector<int32_t> token_ids;
    std::vector<SampledLogprobs> logprobs;  // one a token, when asked for
    // Of the prompt tokens from position `first_prompt_logprob` on that the step's rows predict,
    // when asked for.
    std::vector<SampledLogprobs> prompt_logprobs;
    int32_t first_prompt_logprob = 0;
    std::vector<TokenLogprob> candidates;  // for OutputKind::candidates: the likeliest, best first
    std::vector<float> embedding = {};     // for OutputKind::pooled
    std::optional<Fault>
        fault;  // this sequence failed (values that are not numbers); it produced nothing
};

// What a device took off the host; nothing on the CPU.
struct DeviceCounts {
    int64_t sampled_rows = 0;  // rows of logits of which only the choice came to the host
    int64_t graph_captures = 0;
    int64_t graph_launches = 0;  // steps that ran as graphs

    DeviceCounts& operator+=(const DeviceCounts& other) {
        sampled_rows += other.sampled_rows;
        graph_captures += other.graph_captures;
        graph_launches += other.graph_launches;
        return *this;
    }
};

// What few sequences have. Apart from SequenceStep, so that a result without any costs nothing.
struct StepExtras {
    uint32_t entry = 0;  // index of the plan's entry
    // The rows (DraftTokens) of the accepted draft tokens, in the order of token_ids.
    std::vector<int32_t> accepted_rows;
    DraftTokens next_drafts;  // proposed by the worker for the sequence's next entry

    bool operator==(const StepExtras&) const = default;
};

struct StepResult {
    uint64_t plan_number = 0;
    std::vector<SequenceStep> sequences;       // in the order of the plan's entries
    std::vector<StepExtras> extras = {};       // of some sequences, in their order
    uint64_t swapped_bytes = 0;                // copied to and from host memory
    double swap_ms = 0.0;                      // by that
    double draft_ms = 0.0;                     // that the drafts of the next step took
    int32_t num_ranks = 1;                     // that computed the step
    double busy_ms = 0.0;                      // of all ranks, without what they waited for others
    uint64_t rank_bytes = 0;                   // that ranks sent to each other
    int64_t dropped_experts = 0;               // choices of experts that had no room
    std::vector<ExpertLoad> expert_load = {};  // where it is asked for; of each block a row
    DeviceCounts device = {};
    std::vector<AdapterEvent> adapters = {};  // since the last result
    std::vector<DiskEvent> disk = {};         // alike
};

// What becomes of a sequence after a step: judged by ids and lengths (schedule), then by text
// (engine).
struct StopDecision {
    SequenceId sequence = 0;
    int32_t num_accepted = 0;  // tokens of the step that stay
    std::optional<FinishReason> finish;
    // The id that stopped it, when it was one; its text is not shown unless asked for.
    std::optional<int32_t> stop_token_id;
};

}  // namespace nvllm
