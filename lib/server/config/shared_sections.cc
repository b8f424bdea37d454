// The table of shared keys. The server's options come from its option list.
//
// Every program reads these sections, so this file and those that it needs (server_config.cc,
// alert_rules.cc) are also linked into programs without a server.
#include "lib/server/config/shared_sections.h"

#include "lib/cli/options.h"
#include "lib/server/config/server_config.h"

namespace nvllm::server {
namespace {

std::vector<ConfigKey> shared_keys() {
    return {
        {"model", "name", "served-model-name", "model"},
        {"model", "path", "model"},
        {"model", "precision", "dtype"},
        {"model", "quantization", "quantization"},
        {"gpu", "memory_limit", "memory-limit"},
        {"gpu", "utilization_target", "gpu-memory-utilization"},
        {"gpu", "temperature_alert", "temperature-alert"},
        {"scheduler", "batch_size", "max-num-seqs"},
        {"scheduler", "token_budget", "max-num-batched-tokens"},
        {"scheduler", "policy", "scheduling-policy"},
        {"scheduler", "max_wait_time", "queue-timeout"},
        {"cache", "block_size", "block-size"},
        {"cache", "max_blocks", "max-blocks"},
        {"cache", "defrag_threshold", "defrag-threshold"},
        {"api", "port", "port"},
        {"api", "max_concurrent_requests", "max-concurrent-requests"},
        {"api", "timeout", "request-timeout"},
        {"api", "streaming", "streaming"},
        {"monitoring", "metrics_port", "metrics-port"},
        {"monitoring", "log_level", "log-level"},
        {"monitoring", "alert_rules", "alert-rules"},
    };
}

}  // namespace

ConfigSections shared_sections() {
    ServerConfig config;
    OptionSet options;
    options.add(server_options(), config);
    return {.keys = shared_keys(),
            .options = {{"api", options.names()}},
            // Of some programs; in others they look like misspelt names of other options.
            .other_options = {"download-dir", "filter", "folder", "n-prompt", "offload-dir"}};
}

}  // namespace nvllm::server
