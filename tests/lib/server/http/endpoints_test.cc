// Which addresses follow from options and passed sockets.
#include "lib/server/http/endpoints.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "kernels/error.h"
#include "lib/system/unix_socket.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

OwnedDescriptor bound_to(in_addr_t address) {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(address);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
    return socket;
}

OwnedDescriptor bound_to_v6() {
    OwnedDescriptor socket(::socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_addr = in6addr_any;
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
    return socket;
}

OwnedDescriptor abstract(const std::string& text) {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    return socket;
}

}  // namespace

TEST_CASE("without passed sockets, those that the options name") {
    AddressOptions options;
    options.admin_socket = "/run/admin.sock";
    options.metrics_port = 9100;
    const auto endpoints = endpoints_of(options, {});
    REQUIRE(endpoints.size() == 3);
    CHECK(address_text(endpoints[0]) == "http://127.0.0.1:8000");
    CHECK(endpoints[1].role == EndpointRole::admin);
    CHECK(endpoints[2].role == EndpointRole::metrics);
    CHECK(address_text(endpoints[2]) == "http://127.0.0.1:9100");
}

TEST_CASE("a passed API takes the place of the configured one; metrics alone do not") {
    const OwnedDescriptor socket = bound_to(INADDR_LOOPBACK);
    const OwnedDescriptor metrics = bound_to(INADDR_LOOPBACK);
    AddressOptions options;
    const PassedSocket passed[] = {{metrics.get(), "metrics"}, {socket.get(), ""}};
    const auto both = endpoints_of(options, passed);
    REQUIRE(both.size() == 2);
    CHECK(both[0].role == EndpointRole::api);
    CHECK(both[0].descriptor == socket.get());
    CHECK(both[0].host == "127.0.0.1");
    CHECK(both[0].port != 0);
    CHECK(both[1].role == EndpointRole::metrics);
    const auto one = endpoints_of(options, std::span(passed).first(1));
    REQUIRE(one.size() == 2);
    CHECK(address_text(one[0]) == "http://127.0.0.1:8000");
    CHECK_FALSE(one[0].descriptor);
}

TEST_CASE("a passed socket has the address it is bound to") {
    const OwnedDescriptor open = bound_to(INADDR_ANY);
    const OwnedDescriptor open_v6 = bound_to_v6();
    const PassedSocket passed[] = {{open.get(), "api"}, {open_v6.get(), "api"}};
    const auto endpoints = endpoints_of({}, passed);
    REQUIRE(endpoints.size() == 2);
    CHECK(endpoints[0].host == "0.0.0.0");
    CHECK(endpoints[1].host == "::");
}

TEST_CASE("Unix sockets keep their names, administration is not passed") {
    const OwnedDescriptor socket = abstract("nvllm-endpoints-test");
    AddressOptions options;
    const PassedSocket passed[] = {{socket.get(), "api"}};
    CHECK(address_text(endpoints_of(options, passed)[0]) == "unix:@nvllm-endpoints-test");
    const PassedSocket admin[] = {{socket.get(), "admin"}};
    CHECK_THROWS_WITH_AS(endpoints_of(options, admin), doctest::Contains("--admin-socket"), Error);
}
