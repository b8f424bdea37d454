// A step that was begun and not finished: its result so far, and the rows of logits it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
    // Of an entry with drafts: the row (DraftTokens), and of a draft the row that it follows, its
    // token and how many tokens it is behind the last known one.
    std::optional<int32_t> draft_row = {};
    int32_t parent_row = 0;
    int32_t draft_token = 0;
    int32_t depth = 0;
};

// How far the choices of an entry's rows go along its drafts.
struct DraftPath {
    std::vector<int32_t> rows = {};  // of the accepted drafts
    bool has_ended = false;

    // Whether the row's choice counts: its draft is what the row that it follows chose. REQUIRES:
    // all rows before it were taken, as far as they counted.
    bool reaches(const LogitRow& row, const SequenceStep& step) const {
        if (has_ended) return false;
        if (*row.draft_row == 0) return true;
        const int32_t last = rows.empty() ? 0 : rows.back();
        return row.parent_row == last && row.draft_token == step.token_ids.back();
    }
    // A row that counts has chosen a token, or could not.
    void take(const LogitRow& row, bool has_chosen) {
        if (!has_chosen) {
            has_ended = true;
        } else if (*row.draft_row > 0) {
            rows.push_back(*row.draft_row);
        }
    }
};

struct StepInFlight {
    explicit StepInFlight(const ComputeDevice& device) : sampler(device), done(device) {}

    // Keeps memory for the next use.
    void clear() {
        result = {};
        logit_rows.clear();
        row_faults.clear();
        next_drafts.clear();
        paths.clear();
    }

    StepResult result;
    std::vector<LogitRow> logit_rows;
    std::vector<std::optional<Fault>> row_faults;             // of logit_rows
    std::vector<std::pair<size_t, DraftTokens>> next_drafts;  // by entry, ascending
    std::map<size_t, DraftPath> paths;                        // by entry, of those with drafts
    DeviceSampler sampler;
    Event done;
};

}  // namespace nvllm
