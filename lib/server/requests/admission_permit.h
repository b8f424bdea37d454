// The shares of limits that a request holds from its admission until all of it is computed.
#pragma once

#include "lib/server/access/admission_control.h"
#include "lib/server/access/api_keys.h"

namespace nvllm::server {

struct AdmissionPermit {
    KeyPermit key_permit;             // of its key
    AdmissionControl::Ticket server;  // among the requests of all models
    AdmissionControl::Ticket model;   // among the sequences and prompt tokens of its model

    // With the tokens it came to. Safe to repeat.
    void release(const Usage& usage) {
        server.release();
        model.release();
        key_permit.leave(usage);
    }
};

}  // namespace nvllm::server
