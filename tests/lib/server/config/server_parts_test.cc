// What the server's options say to its parts.
#include "lib/server/config/server_parts.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;
using std::chrono::milliseconds;

TEST_CASE("server parts: times of options are milliseconds") {
    ServerConfig config;
    config.header_timeout_s = 1.5;
    config.write_timeout_s = 0.25;
    config.max_connections = 3;
    const ConnectionLimits limits = connection_limits(config);
    CHECK(limits.header_timeout == milliseconds(1500));
    CHECK(limits.write_timeout == milliseconds(250));
    CHECK(limits.max_connections == 3);
    CHECK(limits.http.max_body_bytes == config.max_body_bytes);

    config.queue_timeout_s = 0.0;
    config.partial_answer_on_timeout = true;
    const RequestTimeouts timeouts = request_timeouts(config);
    CHECK(timeouts.queue == milliseconds(0));
    CHECK(timeouts.request == milliseconds(600'000));
    CHECK(timeouts.gives_partial_response);
}

TEST_CASE("server parts: there are no more connections than files can be open") {
    ServerConfig config;
    config.max_connections = INT32_MAX;
    const int32_t most = connection_limits(config).max_connections;
    CHECK(most > 0);
    CHECK(most < INT32_MAX);
}

TEST_CASE("server parts: keys of the options are numbered, and an empty one is refused") {
    ServerConfig config;
    CHECK(configured_keys(config).empty());
    config.api_keys = {"one", "two"};
    const auto keys = configured_keys(config);
    REQUIRE(keys.size() == 2);
    CHECK(keys[1].name == "api-key-2");
    config.api_keys.emplace_back();
    CHECK_THROWS_AS(configured_keys(config), Error);
}
