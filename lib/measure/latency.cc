// Iterations and their percentiles.
#include "lib/measure/latency.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/statistics.h"

namespace nvllm {
namespace {

constexpr std::array kPercents = {10, 25, 50, 75, 90, 99};

double one_batch_s(EngineLoad& load, std::span<const WorkItem> items, const LatencyOptions& options,
                   int32_t iteration) {
    const LoadResult result =
        load.run(items, {.batching = Batching::continuous,
                         .batch = options.batch_size,
                         .seed = options.seed,
                         .cache_salt = fmt::format("iteration {}", iteration)});
    for (const RequestRecord& request : result.requests) {
        if (request.error) {
            throw Error(ErrorKind::internal, "a request failed: " + *request.error);
        }
    }
    return result.elapsed_s;
}

}  // namespace

std::vector<double> measure_latency(EngineLoad& load, std::span<const WorkItem> items,
                                    const LatencyOptions& options) {
    std::vector<double> latencies_s;
    for (int32_t i = 0; i < options.num_warmups + options.iterations; ++i) {
        if (options.done) options.done(static_cast<size_t>(i));
        try {
            const double elapsed_s = one_batch_s(load, items, options, i);
            if (i >= options.num_warmups) latencies_s.push_back(elapsed_s);
        } catch (const Interrupted&) {
            if (latencies_s.empty()) throw;
            return latencies_s;
        }
    }
    return latencies_s;
}

nlohmann::ordered_json latency_json(std::span<const double> latencies_s) {
    nlohmann::ordered_json percentiles;
    for (const int percent : kPercents) {
        percentiles[std::to_string(percent)] = percentile(latencies_s, percent);
    }
    return {{"avg_latency", mean(latencies_s)},
            {"std_latency", population_deviation(latencies_s)},
            {"latencies", std::vector<double>(latencies_s.begin(), latencies_s.end())},
            {"percentiles", std::move(percentiles)}};
}

std::string latency_table(std::span<const double> latencies_s) {
    std::string text = fmt::format("Avg latency: {} seconds\n", mean(latencies_s));
    for (const int percent : kPercents) {
        text += fmt::format("{}% percentile latency: {} seconds\n", percent,
                            percentile(latencies_s, percent));
    }
    return text;
}

}  // namespace nvllm
