// Requests as rows and as JSON.
#include "lib/view/request_report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

size_t num_blocks(const SequenceSnapshot& sequence) {
    size_t count = 0;
    for (const TableSnapshot& table : sequence.tables) count += table.blocks.size();
    return count;
}

template <typename T>
nlohmann::ordered_json optional_json(const std::optional<T>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json row_json(const SequenceSnapshot& row, double now_s) {
    const bool waits = row.wait_reason != WaitReason::none;
    nlohmann::ordered_json json = {{"sequence", row.id},
                                   {"request", row.request},
                                   {"index", row.index},
                                   {"state", sequence_state_name(row.state)},
                                   {"age_s", now_s - row.arrival_s},
                                   {"waited_s", row.waited_s},
                                   {"first_scheduled_s", optional_json(row.first_scheduled_s)},
                                   {"first_token_s", optional_json(row.first_token_s)},
                                   {"prompt_tokens", row.num_prompt_tokens},
                                   {"generated_tokens", row.num_tokens - row.num_prompt_tokens},
                                   {"most_tokens", row.longest_length},
                                   {"computed_tokens", row.num_computed},
                                   {"cached_tokens", optional_json(row.num_cached_tokens)},
                                   {"blocks", num_blocks(row)},
                                   {"preemptions", row.num_preemptions},
                                   {"pauses", row.num_pauses},
                                   {"priority", row.priority},
                                   {"swapped_out", row.swapped_out}};
    if (!row.adapter.empty()) json["adapter"] = row.adapter;
    if (!waits) return json;
    json["wait"] = {{"reason", wait_reason_name(row.wait_reason)}, {"text", describe_wait(row)}};
    if (row.num_missing_blocks > 0) json["wait"]["lacking_blocks"] = row.num_missing_blocks;
    if (row.waits_for != 0) json["wait"]["waits_for"] = row.waits_for;
    if (row.lease_end_s) json["wait"]["at_most_s"] = *row.lease_end_s - now_s;
    return json;
}

// Before the last column, where it says something of anybody: a terminal is 80 columns wide.
void add_column(const Snapshot& snapshot, const char* heading, int32_t SequenceSnapshot::*member,
                std::vector<std::vector<std::string>>& rows, std::string& sides) {
    const auto zero = [&](const SequenceSnapshot& row) { return row.*member == 0; };
    if (std::ranges::all_of(snapshot.sequences, zero)) return;
    rows[0].insert(rows[0].end() - 1, heading);
    for (size_t i = 0; i < snapshot.sequences.size(); ++i) {
        rows[i + 1].insert(rows[i + 1].end() - 1, std::to_string(snapshot.sequences[i].*member));
    }
    sides.insert(sides.size() - 1, ">");
}

}  // namespace

std::string describe_wait(const SequenceSnapshot& sequence) {
    switch (sequence.wait_reason) {
        case WaitReason::none:
            return "";
        case WaitReason::next_step:
            return "next step";
        case WaitReason::no_slot:
            return "no slot";
        case WaitReason::no_blocks:
            return fmt::format("{} blocks short", sequence.num_missing_blocks);
        case WaitReason::budget_spent:
            return "budget spent";
        case WaitReason::other_sequence:
            return fmt::format("sibling {}", sequence.waits_for);
        case WaitReason::paused:
            return "paused";
        case WaitReason::slow_client:
            return "slow client";
        case WaitReason::swapped:
            return "in host memory";
        case WaitReason::remote_blocks:
            return "remote blocks";
        case WaitReason::behind_another:
            return fmt::format("behind {}", sequence.waits_for);
        case WaitReason::adapter:
            return fmt::format("adapter {}", sequence.adapter);
    }
    return "";
}

std::vector<std::string> request_headings() {
    return {"seq",    "req",  "state", "age s", "prompt", "found",
            "answer", "done", "blk",   "pre",   "why"};
}

std::vector<std::string> request_cells(const SequenceSnapshot& sequence, double now_s) {
    const double done =
        sequence.num_tokens == 0 ? 0.0 : 100.0 * sequence.num_computed / sequence.num_tokens;
    return {std::to_string(sequence.id),
            std::to_string(sequence.request),
            sequence_state_name(sequence.state),
            fmt::format("{:.1f}", now_s - sequence.arrival_s),
            std::to_string(sequence.num_prompt_tokens),
            sequence.num_cached_tokens ? std::to_string(*sequence.num_cached_tokens) : "-",
            std::to_string(sequence.num_tokens - sequence.num_prompt_tokens),
            fmt::format("{:.0f}%", done),
            std::to_string(num_blocks(sequence)),
            std::to_string(sequence.num_preemptions),
            describe_wait(sequence)};
}

std::string requests_text(const Snapshot& snapshot) {
    TextSheet sheet;
    const SchedulerStats& stats = snapshot.scheduler;
    sheet.row("sequences",
              fmt::format("{} run of {} slots, {} wait, of those {} paused, {} swapped and {} for "
                          "remote blocks",
                          stats.num_running, snapshot.config.max_num_seqs, stats.num_waiting,
                          stats.num_paused, stats.num_swapped, stats.num_awaiting));
    sheet.row("scheduling",
              fmt::format("{}, {} tokens a step; {} steps, {} tokens of prefill and {} of decode, "
                          "{} preemptions, {} pauses",
                          snapshot.config.scheduling_policy, snapshot.config.max_num_batched_tokens,
                          with_separators(stats.steps), with_separators(stats.prefill_tokens),
                          with_separators(stats.scheduled_tokens - stats.prefill_tokens),
                          stats.preemptions, stats.pauses));
    if (snapshot.sequences.empty()) return sheet.text();
    sheet.gap();
    std::vector<std::vector<std::string>> rows = {request_headings()};
    for (const SequenceSnapshot& sequence : snapshot.sequences) {
        rows.push_back(request_cells(sequence, snapshot.now_s));
    }
    std::string sides = kRequestSides;
    add_column(snapshot, "pau", &SequenceSnapshot::num_pauses, rows, sides);
    add_column(snapshot, "prio", &SequenceSnapshot::priority, rows, sides);
    sheet.table(rows, sides);
    return sheet.text();
}

nlohmann::ordered_json requests_json(const Snapshot& snapshot) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const SequenceSnapshot& row : snapshot.sequences) {
        rows.push_back(row_json(row, snapshot.now_s));
    }
    const SchedulerStats& stats = snapshot.scheduler;
    return {{"schema", "nvllm-inspect.requests/1"},
            {"now_s", snapshot.now_s},
            {"num_running", stats.num_running},
            {"num_waiting", stats.num_waiting},
            {"num_paused", stats.num_paused},
            {"num_swapped", stats.num_swapped},
            {"num_awaiting", stats.num_awaiting},
            {"max_num_seqs", snapshot.config.max_num_seqs},
            {"scheduling_policy", snapshot.config.scheduling_policy},
            {"steps", stats.steps},
            {"scheduled_tokens", stats.scheduled_tokens},
            {"prefill_tokens", stats.prefill_tokens},
            {"preemptions", stats.preemptions},
            {"pauses", stats.pauses},
            {"sequences", rows}};
}

}  // namespace nvllm::view
