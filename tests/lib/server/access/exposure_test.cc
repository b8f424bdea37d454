// Which addresses need a key.
#include "lib/server/access/exposure.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

Endpoint passed(EndpointRole role, const std::string& host, const char* unix_socket = "") {
    return {.role = role, .host = host, .port = 80, .unix_socket = unix_socket, .descriptor = 3};
}

bool is_refused(const KeyOptions& keys, const Endpoint& endpoint) {
    try {
        check_exposure(keys, std::span(&endpoint, 1));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        CHECK(std::string(error.what()).find("--allow-unauthenticated") != std::string::npos);
        return true;
    }
    return false;
}

}  // namespace

TEST_CASE("exposure: a host beyond this machine needs a key") {
    KeyOptions keys;
    CHECK_NOTHROW(check_exposure(keys, "127.0.0.1"));
    CHECK_NOTHROW(check_exposure(keys, "localhost"));
    CHECK_THROWS_AS(check_exposure(keys, "0.0.0.0"), Error);
    CHECK_THROWS_AS(check_exposure(keys, "127.example.org"), Error);
    keys.allow_unauthenticated = true;
    CHECK_NOTHROW(check_exposure(keys, "0.0.0.0"));
    keys = {};
    keys.api_key_file = "keys.txt";
    CHECK_NOTHROW(check_exposure(keys, "0.0.0.0"));
}

TEST_CASE("exposure: so does a passed socket of the API, if it is TCP") {
    KeyOptions keys;
    CHECK(is_refused(keys, passed(EndpointRole::api, "0.0.0.0")));
    CHECK(is_refused(keys, passed(EndpointRole::api, "::")));
    CHECK(!is_refused(keys, passed(EndpointRole::api, "127.0.0.1")));
    CHECK(!is_refused(keys, passed(EndpointRole::api, "", "@socket")));
    CHECK(!is_refused(keys, passed(EndpointRole::metrics, "0.0.0.0")));
    Endpoint configured = passed(EndpointRole::api, "0.0.0.0");
    configured.descriptor.reset();  // check_server_config() has judged it
    CHECK(!is_refused(keys, configured));
    keys.api_keys = {"k"};
    CHECK(!is_refused(keys, passed(EndpointRole::api, "0.0.0.0")));
}
