// The line of a request in the log (--log-requests).
#pragma once

#include "lib/server/http/http_server.h"

namespace nvllm::server {

// Method, path, status, time and size; then id, model, key, tokens and what it was refused for,
// those that are known. Never the prompt or the output.
void log_request(const CompletedRequest& completed);

}  // namespace nvllm::server
