// Names, help and ranges of the options on admission.
#include "lib/server/access/admission_options.h"

#include <algorithm>
#include <array>

#include "kernels/error.h"

namespace nvllm::server {
OptionList<AdmissionOptions> admission_options() {
    OptionList<AdmissionOptions> list("api");
    list.group("Limits");
    list.add("max-queued-requests", &AdmissionOptions::max_queued_requests,
             "Sequences that may wait for a slot of a model; requests beyond are refused.",
             range(0, 1'000'000));
    list.add("max-concurrent-requests", &AdmissionOptions::max_concurrent_requests,
             "Requests that may run and wait together, of all models.", range(1, 1'000'000),
             default_text("what --max-num-seqs and --max-queued-requests allow"));
    list.add("max-queued-pools", &AdmissionOptions::max_queued_pools,
             "Prompt tokens that may wait, as a multiple of what the key-value cache holds.",
             range(0.0, 1e6));
    list.add("overload-status", &AdmissionOptions::overload_status,
             "Status of requests that are refused for overload: 429, 503 or 529.", range(429, 529));
    return list;
}

void check_admission_options(const AdmissionOptions& options) {
    constexpr std::array kOverload = {429, 503, 529};
    if (std::ranges::find(kOverload, options.overload_status) == kOverload.end()) {
        throw Error(ErrorKind::usage, "--overload-status: 429, 503 or 529");
    }
}

std::shared_ptr<AdmissionControl> server_admission(const AdmissionOptions& options) {
    return std::make_shared<AdmissionControl>(
        AdmissionLimits{.counted = "requests",
                        .max_sequences = options.max_concurrent_requests.value_or(INT64_MAX),
                        .max_prompt_tokens = INT64_MAX,
                        .overload_status = options.overload_status});
}

}  // namespace nvllm::server
