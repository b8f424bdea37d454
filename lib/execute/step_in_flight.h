// A step that was begun and not finished: its result so far, and the rows of logits it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "lib/base/result.h"
#include "lib/decode/device_sampler.h"
#include "lib/request/step_result.h"

namespace nvllm {

// The use of one row of logits.
struct LogitRow {
    size_t entry = 0;  // index in the plan
    // The index in the step's prompt_logprobs of the token it predicts; empty: another use.
    std::optional<size_t> prompt_logprob = {};
    int32_t num_candidates = 0;  // not 0: report so many candidates instead of sampling
    bool on_device = false;      // sampled there; these rows precede all others
    // Of an entry with drafts: the row (DraftTokens), and the draft that its choice is compared
    // with; the last row has none.
    std::optional<int32_t> draft_row = {};
    std::optional<int32_t> next_draft = {};
};

struct StepInFlight {
    explicit StepInFlight(const ComputeDevice& device) : sampler(device), done(device) {}

    // Keeps memory for the next use.
    void clear() {
        result = {};
        logit_rows.clear();
        row_faults.clear();
        next_drafts.clear();
    }

    StepResult result;
    std::vector<LogitRow> logit_rows;
    std::vector<std::optional<Fault>> row_faults;             // of logit_rows
    std::vector<std::pair<size_t, DraftTokens>> next_drafts;  // by entry, ascending
    DeviceSampler sampler;
    Event done;
};

}  // namespace nvllm
