// Replays as text, JSON and picture.
#include "lib/view/trace/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/plot/svg_picture.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBound =
    "an upper bound on the tokens found when requests come in in the order of arrival (Belady's "
    "MIN with bypassing, block by block): it may keep blocks without those before them, computes "
    "prompts at once, and needs no room for what runs; its seconds are those of the blocks it "
    "finds";

int64_t tokens_of(const Trace& trace, int32_t TraceRequest::*count) {
    int64_t sum = 0;
    for (const TraceRequest& request : trace.requests) sum += request.*count;
    return sum;
}

std::string seconds(double value) {
    return value < 10.0 ? fmt::format("{:.2f}", value)
                        : fmt::format("{:.{}f}", value, value < 100.0 ? 1 : 0);
}

void add_table(const ReplayTable& table, const TraceReport& report, TextSheet& sheet) {
    const uint64_t bytes = static_cast<uint64_t>(table.num_blocks) *
                           static_cast<uint64_t>(report.config.block_size) * report.bytes_per_token;
    sheet.gap();
    sheet.line(fmt::format("{} blocks of {} tokens ({})", with_separators(table.num_blocks),
                           report.config.block_size, describe_bytes(bytes)));
    std::vector<std::vector<std::string>> rows = {
        {"policy", "evict", "hit %", "saved", "ttft", "p50", "p99", "queue", "fair", "pre", "end"}};
    int64_t prompt_tokens = 0;
    for (const ReplayResult& run : table.runs) {
        prompt_tokens = std::max(prompt_tokens, run.prompt_tokens);
        rows.push_back({run.config.scheduling_policy, run.config.eviction_policy,
                        fmt::format("{:.2f}", 100.0 * run.hit_rate()), seconds(run.saved_prefill_s),
                        seconds(run.ttft_s.mean), seconds(run.ttft_s.p50), seconds(run.ttft_s.p99),
                        seconds(run.queue_s.mean), fmt::format("{:.2f}", run.fairness),
                        std::to_string(run.preemptions), seconds(run.makespan_s)});
    }
    const double best = prompt_tokens > 0 ? 100.0 * static_cast<double>(table.optimum.hit_tokens) /
                                                static_cast<double>(prompt_tokens)
                                          : 0.0;
    rows.push_back(
        {"(optimum)", "", fmt::format("{:.2f}", best), seconds(table.optimum.saved_prefill_s)});
    sheet.table(rows, "<<>>>>>>>>>");
    if (!table.runs.empty() && table.runs.front().num_refused > 0) {
        sheet.line(fmt::format("  {} requests can never fit and are left out",
                               table.runs.front().num_refused));
    }
}

Json spread_json(const Spread& spread) {
    return {{"mean", spread.mean}, {"p50", spread.p50}, {"p99", spread.p99}};
}

Json run_json(const ReplayResult& run) {
    return {{"scheduling_policy", run.config.scheduling_policy},
            {"eviction_policy", run.config.eviction_policy},
            {"finished", run.num_finished},
            {"refused", run.num_refused},
            {"prompt_tokens", run.prompt_tokens},
            {"hit_tokens", run.hit_tokens},
            {"hit_rate", run.hit_rate()},
            {"saved_prefill_s", run.saved_prefill_s},
            {"whole_prefill_s", run.whole_prefill_s},
            {"ttft_s", spread_json(run.ttft_s)},
            {"queue_s", spread_json(run.queue_s)},
            {"fairness", run.fairness},
            {"preemptions", run.preemptions},
            {"pauses", run.pauses},
            {"steps", run.steps},
            {"evictions", run.evictions},
            {"makespan_s", run.makespan_s}};
}

struct Panel {
    const char* title;
    double left;
    double (*value)(const ReplayResult&);
};

double saved(const ReplayResult& run) { return run.saved_prefill_s; }
double ttft(const ReplayResult& run) { return run.ttft_s.mean; }

constexpr double kBarWidth = 300.0;
constexpr double kRow = 20.0;
constexpr Panel kPanels[] = {{"prefill saved, s (line: optimum)", 170.0, saved},
                             {"mean time to first token, s", 560.0, ttft}};

double largest(const ReplayTable& table, const Panel& panel) {
    double most = panel.value == saved ? table.optimum.saved_prefill_s : 0.0;
    for (const ReplayResult& run : table.runs) most = std::max(most, panel.value(run));
    return std::max(most, 1e-9);
}

void draw_table(const ReplayTable& table, double top, SvgPicture& picture) {
    for (const Panel& panel : kPanels) {
        const double scale = kBarWidth / largest(table, panel);
        double y = top;
        for (const ReplayResult& run : table.runs) {
            const SvgColor color =
                run.config.eviction_policy == "cost" ? SvgColor::series_1 : SvgColor::series_0;
            picture.rectangle(panel.left, y, std::max(1.0, panel.value(run) * scale), kRow - 5.0,
                              color);
            picture.text(panel.left + kBarWidth + 6.0, y + 12.0, seconds(panel.value(run)), 11.0,
                         SvgColor::faint);
            y += kRow;
        }
        if (panel.value != saved) continue;
        const double x = panel.left + table.optimum.saved_prefill_s * scale;
        picture.line(x, top - 4.0, x, y, SvgColor::series_4);
    }
    double y = top;
    for (const ReplayResult& run : table.runs) {
        picture.text(160.0, y + 12.0,
                     run.config.scheduling_policy + " / " + run.config.eviction_policy, 12.0,
                     SvgColor::text, "end");
        y += kRow;
    }
}

}  // namespace

std::string trace_text(const TraceReport& report) {
    TextSheet sheet;
    const Trace& trace = *report.trace;
    const StepModel& step = report.config.step;
    sheet.row("trace",
              fmt::format("{}, {} requests over {:.0f} s", trace.name,
                          with_separators(std::ssize(trace.requests)),
                          trace.requests.back().arrival_s - trace.requests.front().arrival_s));
    sheet.row("tokens",
              fmt::format("{} of prompts, {} of answers",
                          with_separators(tokens_of(trace, &TraceRequest::num_prompt_tokens)),
                          with_separators(tokens_of(trace, &TraceRequest::num_answer_tokens))));
    sheet.row("step model",
              fmt::format("{} ms + {} ms a prefill token + {} ms a prefill token and position + {} "
                          "ms a decoding sequence",
                          step.fixed_ms, step.prefill_token_ms, step.prefill_position_ms,
                          step.decode_sequence_ms));
    sheet.row("engine", fmt::format("{} sequences, {} tokens a step", report.config.max_num_seqs,
                                    report.config.max_num_batched_tokens));
    for (const ReplayTable& table : report.tables) add_table(table, report, sheet);
    sheet.gap();
    sheet.row("optimum", kBound);
    sheet.row("columns",
              "seconds: prefill saved, time to first token (mean, percentiles), time before the "
              "first step, end of the last; pre: preemptions");
    sheet.row("fair",
              "Jain's index over slowdowns (time in the engine against time alone in it); "
              "1: all alike");
    return sheet.text();
}

nlohmann::ordered_json trace_json(const TraceReport& report) {
    const Trace& trace = *report.trace;
    Json tables = Json::array();
    for (const ReplayTable& table : report.tables) {
        Json runs = Json::array();
        for (const ReplayResult& run : table.runs) runs.push_back(run_json(run));
        tables.push_back({{"blocks", table.num_blocks},
                          {"optimum",
                           {{"hit_tokens", table.optimum.hit_tokens},
                            {"saved_prefill_s", table.optimum.saved_prefill_s},
                            {"bounds", kBound}}},
                          {"runs", runs}});
    }
    const StepModel& step = report.config.step;
    return {{"schema", "nvllm-inspect.trace/1"},
            {"trace", trace.name},
            {"requests", trace.requests.size()},
            {"prompt_tokens", tokens_of(trace, &TraceRequest::num_prompt_tokens)},
            {"answer_tokens", tokens_of(trace, &TraceRequest::num_answer_tokens)},
            {"block_size", report.config.block_size},
            {"max_num_seqs", report.config.max_num_seqs},
            {"max_num_batched_tokens", report.config.max_num_batched_tokens},
            {"step_model",
             {{"fixed_ms", step.fixed_ms},
              {"prefill_token_ms", step.prefill_token_ms},
              {"prefill_position_ms", step.prefill_position_ms},
              {"decode_sequence_ms", step.decode_sequence_ms}}},
            {"caches", tables}};
}

std::string trace_svg(const TraceReport& report) {
    double height = 50.0;
    for (const ReplayTable& table : report.tables) {
        height += 60.0 + kRow * static_cast<double>(table.runs.size());
    }
    SvgPicture picture(930.0, height, "Replay of a request trace");
    picture.text(20.0, 28.0,
                 fmt::format("{}: {} requests", report.trace->name,
                             with_separators(std::ssize(report.trace->requests))),
                 15.0);
    double y = 60.0;
    for (const ReplayTable& table : report.tables) {
        picture.text(20.0, y, fmt::format("{} blocks", with_separators(table.num_blocks)), 12.0);
        for (const Panel& panel : kPanels) {
            picture.text(panel.left, y, panel.title, 12.0, SvgColor::faint);
        }
        draw_table(table, y + 12.0, picture);
        y += 60.0 + kRow * static_cast<double>(table.runs.size());
    }
    return picture.finish();
}

}  // namespace nvllm::view
