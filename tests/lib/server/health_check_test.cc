// Where a server is asked for its health.
#include "lib/server/health_check.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;

TEST_CASE("the address follows from the server's own options") {
    ServerConfig config;
    CHECK(health_address(config).text() == "http://127.0.0.1:8000");
    config.addresses.host = "0.0.0.0";
    config.addresses.port = 81;
    CHECK(health_address(config).text() == "http://127.0.0.1:81");
    config.addresses.host = "::";
    CHECK(health_address(config).text() == "http://[::1]:81");
    config.addresses.unix_socket = "/run/a.sock";
    CHECK(health_address(config).text() == "unix:/run/a.sock");
    config.addresses.tls_certificate = "c.pem";
    CHECK_THROWS_AS(health_address(config), Error);
    config.addresses.metrics_port = 9100;
    CHECK(health_address(config).text() == "http://127.0.0.1:9100");
    config.addresses.metrics_port = 0;
    CHECK_THROWS_AS(health_address(config), Error);
}
