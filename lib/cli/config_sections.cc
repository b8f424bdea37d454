// The table of shared keys.
#include "lib/cli/config_sections.h"

#include <algorithm>
#include <array>

namespace nvllm {
namespace {

constexpr std::array kKeys = {
    ConfigKey{"model", "name", "served-model-name"},
    ConfigKey{"model", "path", "model"},
    ConfigKey{"model", "precision", "dtype"},
    ConfigKey{"model", "quantization", "quantization"},
    ConfigKey{"gpu", "memory_limit", "memory-limit"},
    ConfigKey{"gpu", "utilization_target", "gpu-memory-utilization"},
    ConfigKey{"gpu", "temperature_alert", "temperature-alert"},
    ConfigKey{"scheduler", "batch_size", "max-num-seqs"},
    ConfigKey{"scheduler", "token_budget", "max-num-batched-tokens"},
    ConfigKey{"scheduler", "policy", "scheduling-policy"},
    ConfigKey{"scheduler", "max_wait_time", "queue-timeout"},
    ConfigKey{"cache", "block_size", "block-size"},
    ConfigKey{"cache", "max_blocks", "max-blocks"},
    ConfigKey{"cache", "defrag_threshold", "defrag-threshold"},
    ConfigKey{"api", "port", "port"},
    ConfigKey{"api", "max_concurrent_requests", "max-concurrent-requests"},
    ConfigKey{"api", "timeout", "request-timeout"},
    ConfigKey{"api", "streaming", "streaming"},
    ConfigKey{"monitoring", "metrics_port", "metrics-port"},
    ConfigKey{"monitoring", "log_level", "log-level"},
    ConfigKey{"monitoring", "alert_rules", "alert-rules"},
};

constexpr auto kServerOptions = std::to_array<std::string_view>({
    "model",
    "served-model-name",
    "backup-model",
    "host",
    "port",
    "uds",
    "admin-socket",
    "metrics-port",
    "ssl-certfile",
    "ssl-keyfile",
    "api-key",
    "api-key-file",
    "allow-unauthenticated",
    "metrics-without-key",
    "allowed-origins",
    "local-origins",
    "allowed-hosts",
    "cache-isolation",
    "max-body",
    "max-header-bytes",
    "max-headers",
    "max-target-bytes",
    "max-connections",
    "header-timeout",
    "body-timeout",
    "idle-timeout",
    "write-timeout",
    "keep-alive-interval",
    "queue-timeout",
    "max-wait-time",
    "request-timeout",
    "timeout",
    "shutdown-timeout",
    "max-queued-requests",
    "max-concurrent-requests",
    "max-queued-pools",
    "overload-status",
    "max-prompts",
    "max-messages",
    "max-tools",
    "max-logprobs",
    "max-json-depth",
    "streaming",
    "strict-fields",
    "trust-request-chat-template",
    "partial-answer-on-timeout",
    "page",
    "text-threads",
    "log-level",
    "log-format",
    "log-requests",
    "log-stats-interval",
    "alert-rules",
    "temperature-alert",
});

// Words are compared as if written with underscores.
bool equal_words(std::string_view a, std::string_view b) {
    const auto plain = [](char letter) { return letter == '-' ? '_' : letter; };
    return std::ranges::equal(a, b, {}, plain, plain);
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

std::span<const std::string_view> server_option_names() { return kServerOptions; }

bool is_shared_section(std::string_view section) {
    return std::ranges::find(kKeys, section, &ConfigKey::section) != kKeys.end();
}

std::string_view option_of_key(std::string_view section, std::string_view key, bool has_path) {
    if (section == "model" && key == "name" && !has_path) return "model";
    for (const ConfigKey& known : kKeys) {
        if (known.section == section && equal_words(known.key, key)) return known.option;
    }
    return {};
}

bool is_server_option(std::string_view name) {
    return std::ranges::any_of(kServerOptions,
                               [&](std::string_view option) { return equal_words(option, name); });
}

std::vector<std::string> keys_of_section(std::string_view section) {
    std::vector<std::string> keys;
    for (const ConfigKey& known : kKeys) {
        if (known.section == section) keys.emplace_back(known.key);
    }
    if (section == "api") keys.insert(keys.end(), kServerOptions.begin(), kServerOptions.end());
    return keys;
}

}  // namespace nvllm
