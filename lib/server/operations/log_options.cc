// Names, help and ranges of the options on the log.
#include "lib/server/operations/log_options.h"

#include "lib/server/http/connection_options.h"

namespace nvllm::server {

OptionList<ServerLogOptions> server_log_options() {
    OptionList<ServerLogOptions> list("api");
    list.group("Log");
    list.add("log-level", &ServerLogOptions::level, "What is logged.",
             choices({"debug", "info", "warning", "error", "off"}));
    list.add("log-format", &ServerLogOptions::format, "Lines of text, or JSON objects.",
             choices({"text", "json"}));
    list.add("log-requests", &ServerLogOptions::has_requests,
             "A line for each request: its id, model, key, tokens, and what it was refused for.");
    list.add(
        "log-stats-interval", &ServerLogOptions::stats_interval_s,
        "Seconds between two lines on the tokens a second of a model that is at work; 0: none.",
        value_name("S"), range(0.0, kMaxTimeoutSeconds));
    return list;
}

}  // namespace nvllm::server
