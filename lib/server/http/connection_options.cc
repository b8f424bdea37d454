// Names, help and ranges of the options on connections.
#include "lib/server/http/connection_options.h"

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

OptionList<ConnectionOptions> connection_options() {
    OptionList<ConnectionOptions> list("api");
    list.group("Limits");
    list.add("max-body", nested(&ConnectionOptions::http, &HttpLimits::max_body_bytes),
             "Largest request body.", counts_bytes(), at_least(1024));
    list.add("max-header-bytes", nested(&ConnectionOptions::http, &HttpLimits::max_header_bytes),
             "Largest head of a request.", counts_bytes(), range(1024, 1024 * 1024));
    list.add("max-headers", nested(&ConnectionOptions::http, &HttpLimits::max_headers),
             "Headers of a request.", range(8, 10000));
    list.add("max-target-bytes", nested(&ConnectionOptions::http, &HttpLimits::max_target_bytes),
             "Longest path and query of a request.", counts_bytes(), range(64, 1024 * 1024));
    list.add("max-connections", &ConnectionOptions::max_connections,
             "Connections at once; fewer when fewer files may be open.", range(1, 1'000'000));
    list.add("header-timeout", &ConnectionOptions::header_timeout_s,
             "Seconds for a request's head to arrive.", value_name("S"),
             range(0.1, kMaxTimeoutSeconds));
    list.add("body-timeout", &ConnectionOptions::body_timeout_s,
             "Seconds for its body, and one more for each MiB.", value_name("S"),
             range(0.1, kMaxTimeoutSeconds));
    list.add("idle-timeout", &ConnectionOptions::idle_timeout_s,
             "Seconds a connection is kept without a request.", value_name("S"),
             range(0.1, kMaxTimeoutSeconds));
    list.add("write-timeout", &ConnectionOptions::write_timeout_s,
             "Seconds a client may take nothing of its answer.", value_name("S"),
             range(0.1, kMaxTimeoutSeconds));
    list.add("keep-alive-interval", &ConnectionOptions::keep_alive_interval_s,
             "Seconds between comments in a silent stream.", value_name("S"),
             range(0.05, kMaxTimeoutSeconds));
    return list;
}

std::chrono::milliseconds milliseconds_of(double seconds) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(seconds));
}

ConnectionLimits connection_limits(const ConnectionOptions& options) {
    return {.http = options.http,
            .max_connections = connections_that_fit(options.max_connections),
            .header_timeout = milliseconds_of(options.header_timeout_s),
            .body_timeout = milliseconds_of(options.body_timeout_s),
            .idle_timeout = milliseconds_of(options.idle_timeout_s),
            .write_timeout = milliseconds_of(options.write_timeout_s),
            .keep_alive_interval = milliseconds_of(options.keep_alive_interval_s)};
}

}  // namespace nvllm::server
