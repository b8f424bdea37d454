// The drafts that steps verified, as a step log tells them: trees of tokens, and the path through
// each that was accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/request/draft_tokens.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::view {

struct LoggedDrafts {
    uint64_t plan_number = 0;
    int64_t sequence = 0;
    DraftTokens drafts;
    std::vector<int32_t> accepted_rows;  // as DraftTokens counts them
};

struct DraftReport {
    int64_t num_steps = 0;     // in the log
    int64_t num_verified = 0;  // trees
    int64_t num_drafts = 0;
    int64_t num_accepted = 0;
    std::vector<LoggedDrafts> shown;  // of one step
};

// Of what nvllm-run --step-log wrote, with the trees of plan `plan_number`; 0: of the last that has
// some. Throws io, and bad_data for lines that are no records of steps.
DraftReport read_draft_report(const std::filesystem::path& log, uint64_t plan_number);

// `tokenizer`: for the texts of tokens; null: ids alone.
std::string draft_text(const DraftReport& report, const Tokenizer* tokenizer);
// "nvllm-inspect.drafts/1".
nlohmann::ordered_json draft_json(const DraftReport& report, const Tokenizer* tokenizer);
// Trees from left to right, one below the other; the accepted path is filled.
std::string draft_svg(const DraftReport& report, const Tokenizer* tokenizer);

}  // namespace nvllm::view
