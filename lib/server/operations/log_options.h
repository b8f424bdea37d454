// Options on the log.
#pragma once

#include <string>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct ServerLogOptions {
    std::string level = "info";
    std::string format = "text";
    bool has_requests = false;       // a line for each request
    double stats_interval_s = 10.0;  // 0: never
};

OptionList<ServerLogOptions> server_log_options();

}  // namespace nvllm::server
