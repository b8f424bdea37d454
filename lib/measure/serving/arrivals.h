// When requests are sent: Poisson or burstier, at a steady rate or one that grows.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "lib/measure/workload.h"

namespace nvllm {

// As in vllm bench serve.
struct ArrivalOptions {
    // Requests per second; infinity: all at once.
    double request_rate = std::numeric_limits<double>::infinity();
    // Shape of the gamma distribution of the gaps: 1 is Poisson, below 1 burstier, above 1 evener.
    double burstiness = 1.0;
    // With a ramp the rate goes from start to end over the requests, linearly or exponentially, and
    // request_rate is not read.
    std::optional<std::string> ramp_up_strategy = {};  // "linear", "exponential"
    double ramp_up_start_rps = 0.0, ramp_up_end_rps = 0.0;
    uint64_t seed = 0;
};

// Sets send_at_s of all items. Without a ramp the gaps are scaled so that the last request is sent
// at count / request_rate. REQUIRES: rates above 0, burstiness above 0.
void set_arrivals(std::span<WorkItem> items, const ArrivalOptions& options);

}  // namespace nvllm
