// From token times to the metrics.
#include "lib/measure/serving_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/option_values.h"

namespace nvllm {
namespace {

// A request's own figures, in ms.
struct Felt {
    double ttft_ms = 0.0, e2el_ms = 0.0;
    std::optional<double> tpot_ms;
};

Felt felt_of(const RequestRecord& request) {
    Felt felt;
    felt.ttft_ms = (request.first_token_s() - request.sent_s) * 1000.0;
    felt.e2el_ms = (request.token_times_s.back() - request.sent_s) * 1000.0;
    if (request.num_output_tokens > 1) {
        felt.tpot_ms =
            (felt.e2el_ms - felt.ttft_ms) / static_cast<double>(request.num_output_tokens - 1);
    }
    return felt;
}

bool meets(const Felt& felt, const GoodputLimits& limits) {
    return !(limits.ttft_ms && felt.ttft_ms > *limits.ttft_ms) &&
           !(limits.tpot_ms && felt.tpot_ms.value_or(0.0) > *limits.tpot_ms) &&
           !(limits.e2el_ms && felt.e2el_ms > *limits.e2el_ms);
}

// How many requests and outputs fall into each second of the run.
class Seconds {
  public:
    Seconds(double origin_s, double duration_s)
        : origin_s_(origin_s),
          outputs_(static_cast<size_t>(std::max(0.0, duration_s)) + 2),
          requests_(outputs_.size()) {}

    void add(const RequestRecord& request) {
        for (const double time_s : request.token_times_s) ++outputs_[second(time_s)];
        const size_t last = second(request.token_times_s.back());
        for (size_t i = second(request.sent_s); i <= last; ++i) ++requests_[i];
    }
    int64_t most_outputs() const { return *std::ranges::max_element(outputs_); }
    int64_t most_requests() const { return *std::ranges::max_element(requests_); }

  private:
    size_t second(double time_s) const {
        return std::min(static_cast<size_t>(std::max(0.0, time_s - origin_s_)),
                        outputs_.size() - 1);
    }
    double origin_s_;
    std::vector<int64_t> outputs_, requests_;
};

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
    double origin_s = INFINITY;
    for (const RequestRecord& request : requests) origin_s = std::min(origin_s, request.sent_s);
    Seconds seconds(requests.empty() ? 0.0 : origin_s, duration_s);
    int64_t good = 0;
    for (const RequestRecord& request : requests) {
        if (request.error || request.token_times_s.empty()) {
            ++metrics.failed;
            continue;
        }
        const Felt felt = felt_of(request);
        ++metrics.completed;
        metrics.total_input_tokens += request.num_prompt_tokens;
        metrics.total_output_tokens += request.num_output_tokens;
        metrics.ttfts_ms.push_back(felt.ttft_ms);
        metrics.e2els_ms.push_back(felt.e2el_ms);
        if (felt.tpot_ms) metrics.tpots_ms.push_back(*felt.tpot_ms);
        const auto& times = request.token_times_s;
        for (size_t i = 1; i < times.size(); ++i) {
            metrics.itls_ms.push_back((times[i] - times[i - 1]) * 1000.0);
        }
        if (meets(felt, limits)) ++good;
        seconds.add(request);
    }
    const double per_s = duration_s > 0.0 ? 1.0 / duration_s : 0.0;
    metrics.request_throughput = static_cast<double>(metrics.completed) * per_s;
    if (limits.any()) metrics.request_goodput = static_cast<double>(good) * per_s;
    metrics.output_throughput = static_cast<double>(metrics.total_output_tokens) * per_s;
    metrics.total_token_throughput =
        static_cast<double>(metrics.total_input_tokens + metrics.total_output_tokens) * per_s;
    metrics.max_output_tokens_per_s = static_cast<double>(seconds.most_outputs());
    metrics.max_concurrent_requests = seconds.most_requests();
    return metrics;
}

}  // namespace nvllm
