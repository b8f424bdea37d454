// Admission of a request that computes: memory, the key's limits, queue limits, tokens of its
// prompts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/access/admission_control.h"
#include "lib/server/access/api_keys.h"
#include "lib/server/http/api_error.h"
#include "lib/server/models/hosted_model.h"
#include "lib/server/requests/admission_permit.h"

namespace nvllm::server {

struct Applicant {
    HostedModel& model;
    const std::string& adapter;        // empty: none
    const std::string* authorization;  // as the header has it; null if absent
    // The key that the server itself acts for, as HttpTransaction has it.
    const std::optional<std::string>& acting_key;
    const char* prompt_field;  // the name of the prompt in the body, for its faults
    const std::vector<RequestInput>& inputs;
    int64_t num_sequences;  // of all inputs together
};

struct Admitted {
    AdmissionPermit permit;
    std::vector<Request> prepared;  // one an input
};

// Thread-safe.
class RequestAdmission {
  public:
    // `keys` outlives this; `server` counts the requests of all models. `cache_isolation`: auto,
    // none or key (--cache-isolation).
    RequestAdmission(const KeyRing& keys, std::shared_ptr<AdmissionControl> server,
                     std::string cache_isolation)
        : keys_(keys), server_(std::move(server)), cache_isolation_(std::move(cache_isolation)) {}

    // Empty, with `error` set and every permit released, if the request is refused. Refusals for
    // load are counted by the model's metrics.
    std::optional<Admitted> admit(const Applicant& applicant, ApiError& error) const;

  private:
    std::optional<ApiKey> key_of(const Applicant& applicant) const;
    std::optional<ApiError> take_permits(const Applicant& applicant,
                                         const std::optional<ApiKey>& key,
                                         AdmissionPermit& permit) const;
    // Isolation of cached prompts: the client's own salt, prefixed with its key's name.
    std::string cache_salt(const std::string& given, const std::string& key_name) const;

    const KeyRing& keys_;
    const std::shared_ptr<AdmissionControl> server_;
    const std::string cache_isolation_;
};

}  // namespace nvllm::server
