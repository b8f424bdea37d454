// Options on how many requests are admitted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/cli/option_list.h"
#include "lib/server/access/admission_control.h"

namespace nvllm::server {

struct AdmissionOptions {
    int64_t max_queued_requests = 512;               // sequences that wait, of each model
    std::optional<int64_t> max_concurrent_requests;  // running and queued, of all models
    double max_queued_pools = 4.0;  // prompt tokens that wait, as a multiple of the KV cache's
    int32_t overload_status = 429;  // or 503, 529: what balancers in front understand
};

OptionList<AdmissionOptions> admission_options();

// Throws usage for a status that --overload-status does not allow.
void check_admission_options(const AdmissionOptions& options);

// Of requests that run and wait, for all models together.
std::shared_ptr<AdmissionControl> server_admission(const AdmissionOptions& options);

}  // namespace nvllm::server
