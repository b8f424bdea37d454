// From the server's options to those of its parts.
#include "lib/server/config/server_parts.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "kernels/error.h"

namespace nvllm::server {
namespace {

// Descriptors that are not connections: files, sockets, libraries.
constexpr int64_t kOwnDescriptors = 128;

int32_t connections_that_fit(int32_t wanted) {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const auto most = static_cast<int64_t>(files.rlim_cur) - kOwnDescriptors;
    if (most < 1) {
        throw Error(ErrorKind::unavailable,
                    fmt::format("only {} files may be open, and at least {} are needed: raise the "
                                "limit (ulimit -n)",
                                files.rlim_cur, kOwnDescriptors + 1));
    }
    return static_cast<int32_t>(std::min<int64_t>(wanted, most));
}

}  // namespace

std::chrono::milliseconds milliseconds_of(double seconds) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(seconds));
}

ConnectionLimits connection_limits(const ServerConfig& config) {
    ConnectionLimits limits;
    limits.http = {config.max_header_bytes, config.max_headers, config.max_target_bytes,
                   config.max_body_bytes};
    limits.max_connections = connections_that_fit(config.max_connections);
    limits.header_timeout = milliseconds_of(config.header_timeout_s);
    limits.body_timeout = milliseconds_of(config.body_timeout_s);
    limits.idle_timeout = milliseconds_of(config.idle_timeout_s);
    limits.write_timeout = milliseconds_of(config.write_timeout_s);
    limits.keep_alive_interval = milliseconds_of(config.keep_alive_interval_s);
    return limits;
}

RequestTimeouts request_timeouts(const ServerConfig& config) {
    return {milliseconds_of(config.queue_timeout_s), milliseconds_of(config.request_timeout_s),
            config.partial_answer_on_timeout};
}

ModelLimits model_limits(const ServerConfig& config) {
    return {.max_queued_requests = config.max_queued_requests,
            .max_queued_pools = config.max_queued_pools,
            .overload_status = config.overload_status,
            .call = request_limits(config)};
}

std::shared_ptr<AdmissionControl> request_permits(const ServerConfig& config) {
    return std::make_shared<AdmissionControl>(
        AdmissionLimits{.counted = "requests",
                        .max_sequences = config.max_concurrent_requests.value_or(INT64_MAX),
                        .max_prompt_tokens = INT64_MAX,
                        .overload_status = config.overload_status});
}

std::vector<ApiKey> configured_keys(const ServerConfig& config) {
    std::vector<ApiKey> keys;
    if (!config.api_key_file.empty()) keys = read_key_file(config.api_key_file);
    for (size_t i = 0; i < config.api_keys.size(); ++i) {
        if (config.api_keys[i].empty())
            throw Error(ErrorKind::usage, "--api-key: the key is empty");
        keys.push_back(make_key(fmt::format("api-key-{}", i + 1), config.api_keys[i]));
    }
    return keys;
}

}  // namespace nvllm::server
