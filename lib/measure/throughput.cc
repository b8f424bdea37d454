// Repeats, and what is said about them.
#include "lib/measure/throughput.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/statistics.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

void check_all_finished(const LoadResult& result) {
    for (const RequestRecord& request : result.requests) {
        if (request.error) {
            throw Error(ErrorKind::internal, "a request failed: " + *request.error);
        }
    }
}

void run_untimed(EngineLoad& load, std::span<const WorkItem> items,
                 const ThroughputOptions& options) {
    if (items.empty()) return;
    check_all_finished(load.run(items, {.batching = Batching::continuous,
                                        .batch = options.batch,
                                        .temperature = options.temperature,
                                        .seed = options.seed,
                                        .cache_salt = "warm-up"}));
}

// A few short requests: pages are mapped, threads awake, scratch at its size.
void warm_up(EngineLoad& load, std::span<const WorkItem> items, const ThroughputOptions& options) {
    std::vector<WorkItem> few;
    for (size_t i = 0; i < items.size() && i < static_cast<size_t>(options.num_warmups); ++i) {
        few.push_back(items[i]);
        few.back().num_output_tokens = std::min(few.back().num_output_tokens, 8);
    }
    run_untimed(load, few, options);
    if (options.learns_answers) run_untimed(load, items, options);
}

LoadOptions run_options(const ThroughputOptions& options, Batching batching, int32_t repeat) {
    return {.batching = batching,
            .batch = options.batch,
            .temperature = options.temperature,
            .seed = options.seed,
            .cache_salt = fmt::format("{} {}", batching_name(batching), repeat)};
}

// Of series of which the one of `batching` was stopped in a run. Throws that on when there is
// nothing.
std::vector<ThroughputSeries> what_was_measured(std::vector<ThroughputSeries> all,
                                                Batching batching, const Interrupted& stopped) {
    for (ThroughputSeries& series : all) {
        if (series.batching != batching || !series.runs.empty()) continue;
        if (!stopped.partial->requests.empty()) series.runs.push_back(*stopped.partial);
    }
    std::erase_if(all, [](const ThroughputSeries& series) { return series.runs.empty(); });
    if (all.empty()) throw stopped;
    return all;
}

std::vector<double> per_second(const std::vector<LoadResult>& runs,
                               int64_t (*count)(const LoadResult&)) {
    std::vector<double> rates;
    for (const LoadResult& run : runs) {
        rates.push_back(static_cast<double>(count(run)) / std::max(run.elapsed_s, 1e-9));
    }
    return rates;
}

Json series_json(const ThroughputSeries& series) {
    const LoadResult& first = series.runs.front();
    return {{"elapsed_time", median(series.elapsed_s())},
            {"cpu_time", median(series.cpu_s())},
            {"requests_per_second", median(series.requests_per_second())},
            {"tokens_per_second", median(series.total_tokens_per_second())},
            {"output_tokens_per_second", median(series.output_tokens_per_second())},
            {"decode_tokens_per_second", median(series.decode_tokens_per_second())},
            {"slots_filled", first.slots_filled},
            {"ranks_busy", first.ranks_busy},
            {"steps", first.num_steps},
            {"draft_tokens", first.num_draft_tokens},
            {"accepted_draft_tokens", first.num_accepted_drafts},
            {"samples",
             {{"elapsed_time", series.elapsed_s()},
              {"cpu_time", series.cpu_s()},
              {"tokens_per_second", series.total_tokens_per_second()},
              {"output_tokens_per_second", series.output_tokens_per_second()},
              {"decode_tokens_per_second", series.decode_tokens_per_second()}}}};
}

}  // namespace

const char* batching_name(Batching batching) {
    switch (batching) {
        case Batching::continuous:
            return "continuous";
        case Batching::fixed:
            return "static";
        case Batching::timed:
            return "timed";
    }
    return "";
}

std::vector<double> ThroughputSeries::elapsed_s() const {
    std::vector<double> times;
    for (const LoadResult& run : runs) times.push_back(run.elapsed_s);
    return times;
}

std::vector<double> ThroughputSeries::cpu_s() const {
    std::vector<double> times;
    for (const LoadResult& run : runs) times.push_back(run.cpu_s);
    return times;
}

std::vector<double> ThroughputSeries::requests_per_second() const {
    return per_second(runs, [](const LoadResult& run) { return run.num_finished(); });
}

std::vector<double> ThroughputSeries::output_tokens_per_second() const {
    return per_second(runs, [](const LoadResult& run) { return run.output_tokens(); });
}

std::vector<double> ThroughputSeries::total_tokens_per_second() const {
    return per_second(
        runs, [](const LoadResult& run) { return run.prompt_tokens() + run.output_tokens(); });
}

std::vector<double> ThroughputSeries::decode_tokens_per_second() const {
    std::vector<double> rates;
    for (const LoadResult& run : runs) rates.push_back(run.decode_tokens_per_second());
    return rates;
}

std::vector<ThroughputSeries> measure_throughput(EngineLoad& load, std::span<const WorkItem> items,
                                                 const ThroughputOptions& options) {
    warm_up(load, items, options);
    std::vector<ThroughputSeries> all;
    for (const Batching batching : options.batchings) all.push_back({batching, {}});
    int64_t num_before = 0;
    for (int32_t repeat = 0; repeat < options.repeats; ++repeat) {
        for (ThroughputSeries& series : all) {
            LoadOptions run = run_options(options, series.batching, repeat);
            run.done = [&](int64_t num_tokens) {
                if (options.done) options.done(num_before + num_tokens);
            };
            try {
                series.runs.push_back(load.run(items, run));
            } catch (const Interrupted& stopped) {
                return what_was_measured(std::move(all), series.batching, stopped);
            }
            check_all_finished(series.runs.back());
            num_before += total_tokens(items);
        }
    }
    return all;
}

Json throughput_json(std::span<const ThroughputSeries> series) {
    const LoadResult& first = series.front().runs.front();
    Json object = {{"elapsed_time", median(series.front().elapsed_s())},
                   {"num_requests", first.requests.size()},
                   {"total_num_tokens", first.prompt_tokens() + first.output_tokens()},
                   {"total_prompt_tokens", first.prompt_tokens()},
                   {"total_output_tokens", first.output_tokens()},
                   {"requests_per_second", median(series.front().requests_per_second())},
                   {"tokens_per_second", median(series.front().total_tokens_per_second())},
                   {"output_tokens_per_second", median(series.front().output_tokens_per_second())},
                   {"repeats", series.front().runs.size()},
                   {"batching", Json::object()}};
    for (const ThroughputSeries& one : series) {
        object["batching"][batching_name(one.batching)] = series_json(one);
    }
    return object;
}

std::string throughput_table(std::span<const ThroughputSeries> series) {
    const ThroughputSeries& first = series.front();
    std::string text = fmt::format(
        "Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n"
        "Total num prompt tokens:  {}\n"
        "Total num output tokens:  {}\n\n",
        median(first.requests_per_second()), median(first.total_tokens_per_second()),
        median(first.output_tokens_per_second()), first.runs.front().prompt_tokens(),
        first.runs.front().output_tokens());
    text += fmt::format("{:<12} {:>7} {:>13} {:>11} {:>30} {:>30}\n", "batching", "steps",
                        "slots filled", "ranks busy", "total tokens/s (range)",
                        "output tokens/s (range)");
    for (const ThroughputSeries& one : series) {
        text += fmt::format(
            "{:<12} {:>7} {:>11.1f} % {:>9.1f} % {:>30} {:>30}\n", batching_name(one.batching),
            one.runs.front().num_steps, one.runs.front().slots_filled * 100.0,
            one.runs.front().ranks_busy * 100.0, median_and_range(one.total_tokens_per_second(), 1),
            median_and_range(one.output_tokens_per_second(), 1));
    }
    for (const ThroughputSeries& one : series) {
        const LoadResult& run = one.runs.front();
        if (run.num_draft_tokens == 0) continue;
        text +=
            fmt::format("{:<12} {} of {} proposed tokens accepted\n", batching_name(one.batching),
                        run.num_accepted_drafts, run.num_draft_tokens);
    }
    return text;
}

}  // namespace nvllm
