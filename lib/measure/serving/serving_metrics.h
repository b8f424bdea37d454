// What users of a server feel: time to the first token, between tokens, in all; and goodput.
//
// Definitions are those of vllm bench serve:
//   TTFT  from sending to the first streamed output
//   ITL   every gap between streamed outputs, pooled over the requests
//   TPOT  (E2EL - TTFT) / (output tokens - 1) of each request with two tokens or more
//   E2EL  from sending to the last streamed output
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

struct GoodputLimits {
    std::optional<double> ttft_ms, tpot_ms, e2el_ms;
    bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};

// "ttft:200" or "tpot:50", "e2el:3000", one or several. Throws usage.
GoodputLimits parse_goodput(const std::vector<std::string>& texts);

struct ServingMetrics {
    int64_t completed = 0, failed = 0;
    int64_t total_input_tokens = 0, total_output_tokens = 0;  // of completed requests
    double duration_s = 0.0;
    double request_throughput = 0.0;        // completed requests a second
    std::optional<double> request_goodput;  // those that met every limit, a second
    double output_throughput = 0.0, total_token_throughput = 0.0;  // tokens a second
    // In the best window of about a second; of a shorter run, in all of it.
    double max_output_tokens_per_s = 0.0;
    int64_t max_concurrent_requests = 0;  // open at the same moment
    std::vector<double> ttfts_ms, tpots_ms, itls_ms, e2els_ms;
};

ServingMetrics serving_metrics(std::span<const RequestRecord> requests, double duration_s,
                               const GoodputLimits& limits);

}  // namespace nvllm
