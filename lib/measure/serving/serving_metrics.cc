// From token times to the metrics.
#include "lib/measure/serving/serving_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/option_values.h"

namespace nvllm {
namespace {

// Latencies of one request, in ms.
struct RequestLatencies {
    double ttft_ms = 0.0, e2el_ms = 0.0;
    std::optional<double> tpot_ms;
};

RequestLatencies latencies_of(const RequestRecord& request) {
    RequestLatencies latencies;
    latencies.ttft_ms = (request.first_token_s() - request.sent_s) * 1000.0;
    latencies.e2el_ms = (request.token_times_s.back() - request.sent_s) * 1000.0;
    if (request.num_output_tokens > 1) {
        latencies.tpot_ms = (latencies.e2el_ms - latencies.ttft_ms) /
                            static_cast<double>(request.num_output_tokens - 1);
    }
    return latencies;
}

bool meets(const RequestLatencies& latencies, const GoodputLimits& limits) {
    return !(limits.ttft_ms && latencies.ttft_ms > *limits.ttft_ms) &&
           !(limits.tpot_ms && latencies.tpot_ms.value_or(0.0) > *limits.tpot_ms) &&
           !(limits.e2el_ms && latencies.e2el_ms > *limits.e2el_ms);
}

// The most tokens a second within any window of the run that is about a second long: of a run of
// n seconds and a part the (n + 1)th part of it, so that the best is never below the mean.
double peak_tokens_per_s(std::vector<std::pair<double, double>> tokens, double duration_s) {
    if (tokens.empty() || duration_s <= 0.0) return 0.0;
    std::ranges::sort(tokens);
    const double window_s = duration_s / std::ceil(duration_s);
    double count = 0.0;
    double most = 0.0;
    for (size_t first = 0, next = 0; first < tokens.size(); count -= tokens[first++].second) {
        for (; next < tokens.size() && tokens[next].first <= tokens[first].first + window_s;
             ++next) {
            count += tokens[next].second;
        }
        most = std::max(most, count);
    }
    return most / window_s;
}

// When each output came, and how many tokens it is taken for: all of a request's have as many.
void add_outputs(const RequestRecord& request, std::vector<std::pair<double, double>>& tokens) {
    const double each = static_cast<double>(request.num_output_tokens) /
                        static_cast<double>(request.token_times_s.size());
    for (const double time_s : request.token_times_s) tokens.emplace_back(time_s, each);
}

// The most requests that were open at the same moment, failed ones among them.
int64_t max_open(std::span<const RequestRecord> requests) {
    std::vector<std::pair<double, int>> changes;  // who ends makes room before who begins
    for (const RequestRecord& request : requests) {
        changes.emplace_back(request.sent_s, 1);
        changes.emplace_back(std::max(request.finished_s, request.sent_s), -1);
    }
    std::ranges::sort(changes);
    int64_t open = 0;
    int64_t most = 0;
    for (const auto& change : changes) most = std::max(most, open += change.second);
    return most;
}

}  // namespace

GoodputLimits parse_goodput(const std::vector<std::string>& texts) {
    GoodputLimits limits;
    for (const std::string& text : texts) {
        const size_t colon = std::min(text.find(':'), text.size());
        const double value =
            parse_number(text.substr(std::min(colon + 1, text.size()))).value_or(-1.0);
        const std::string key = text.substr(0, colon);
        std::optional<double>* limit = key == "ttft"   ? &limits.ttft_ms
                                       : key == "tpot" ? &limits.tpot_ms
                                       : key == "e2el" ? &limits.e2el_ms
                                                       : nullptr;
        if (limit == nullptr || value < 0.0) {
            throw Error(ErrorKind::usage,
                        fmt::format("--goodput: '{}' is not KEY:MILLISECONDS with a key of ttft, "
                                    "tpot, e2el",
                                    text));
        }
        *limit = value;
    }
    return limits;
}

ServingMetrics serving_metrics(std::span<const RequestRecord> requests, double duration_s,
                               const GoodputLimits& limits) {
    ServingMetrics metrics;
    metrics.duration_s = duration_s;
    std::vector<std::pair<double, double>> tokens;
    int64_t good = 0;
    for (const RequestRecord& request : requests) {
        if (request.error || request.token_times_s.empty()) {
            ++metrics.failed;
            continue;
        }
        const RequestLatencies latencies = latencies_of(request);
        ++metrics.completed;
        metrics.total_input_tokens += request.num_prompt_tokens;
        metrics.total_output_tokens += request.num_output_tokens;
        metrics.ttfts_ms.push_back(latencies.ttft_ms);
        metrics.e2els_ms.push_back(latencies.e2el_ms);
        if (latencies.tpot_ms) metrics.tpots_ms.push_back(*latencies.tpot_ms);
        const auto& times = request.token_times_s;
        for (size_t i = 1; i < times.size(); ++i) {
            metrics.itls_ms.push_back((times[i] - times[i - 1]) * 1000.0);
        }
        if (meets(latencies, limits)) ++good;
        add_outputs(request, tokens);
    }
    const double per_s = duration_s > 0.0 ? 1.0 / duration_s : 0.0;
    metrics.request_throughput = static_cast<double>(metrics.completed) * per_s;
    if (limits.any()) metrics.request_goodput = static_cast<double>(good) * per_s;
    metrics.output_throughput = static_cast<double>(metrics.total_output_tokens) * per_s;
    metrics.total_token_throughput =
        static_cast<double>(metrics.total_input_tokens + metrics.total_output_tokens) * per_s;
    metrics.max_output_tokens_per_s = peak_tokens_per_s(std::move(tokens), duration_s);
    metrics.max_concurrent_requests = max_open(requests);
    return metrics;
}

}  // namespace nvllm
