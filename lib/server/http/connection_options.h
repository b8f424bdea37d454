// Options on connections: limits of sizes and times.
#pragma once

#include <chrono>
#include <cstdint>

#include "lib/cli/option_list.h"
#include "lib/server/http/http_server.h"

namespace nvllm::server {

// The upper bound of every option in seconds.
inline constexpr double kMaxTimeoutSeconds = 7.0 * 24 * 3600;

struct ConnectionOptions {
    HttpLimits http;
    int32_t max_connections = 4096;
    double header_timeout_s = 10.0;
    double body_timeout_s = 30.0;
    double idle_timeout_s = 75.0;
    double write_timeout_s = 30.0;
    double keep_alive_interval_s = 15.0;
};

OptionList<ConnectionOptions> connection_options();

std::chrono::milliseconds milliseconds_of(double seconds);

// Limits for HttpServer: at most as many connections as open files allow. Raises the process's own
// limit of open files to its maximum. Throws unavailable if no connection is left.
ConnectionLimits connection_limits(const ConnectionOptions& options);

}  // namespace nvllm::server
