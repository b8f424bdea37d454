// From the options on connections to limits.
#include "lib/server/http/connection_options.h"

#include <doctest/doctest.h>

using namespace nvllm::server;
using std::chrono::milliseconds;

TEST_CASE("connection options: times are milliseconds") {
    ConnectionOptions options;
    options.header_timeout_s = 1.5;
    options.write_timeout_s = 0.25;
    options.max_connections = 3;
    options.http.max_body_bytes = 4096;
    const ConnectionLimits limits = connection_limits(options);
    CHECK(limits.header_timeout == milliseconds(1500));
    CHECK(limits.write_timeout == milliseconds(250));
    CHECK(limits.max_connections == 3);
    CHECK(limits.http.max_body_bytes == 4096);
}

TEST_CASE("connection options: there are no more connections than files can be open") {
    ConnectionOptions options;
    options.max_connections = INT32_MAX;
    const int32_t most = connection_limits(options).max_connections;
    CHECK(most > 0);
    CHECK(most < INT32_MAX);
}
