// What the server's options say to each of its parts: limits, timeouts, places, keys.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "lib/server/access/api_keys.h"
#include "lib/server/config/server_config.h"
#include "lib/server/http/http_server.h"
#include "lib/server/models/hosted_model.h"
#include "lib/server/requests/active_request.h"

namespace nvllm::server {

std::chrono::milliseconds milliseconds_of(double seconds);

// As many connections as the options say and open files allow; the process's own limit on those is
// raised as far as it may be. Throws unavailable when it leaves none.
ConnectionLimits connection_limits(const ServerConfig& config);
RequestTimeouts request_timeouts(const ServerConfig& config);
ModelLimits model_limits(const ServerConfig& config);
// Of requests that run and wait, for all models together.
std::shared_ptr<AdmissionControl> request_permits(const ServerConfig& config);

// Those of the key file and of --api-key. Throws usage for one that is empty, and what is wrong
// with the file.
std::vector<ApiKey> configured_keys(const ServerConfig& config);

}  // namespace nvllm::server
