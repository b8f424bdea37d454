// Endpoints from options and from descriptors.
#include "lib/server/http/endpoints.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "kernels/error.h"

namespace nvllm::server {
namespace {

void set_unix_address(Endpoint& endpoint, const sockaddr_storage& address, socklen_t size) {
    const auto* path = reinterpret_cast<const sockaddr_un*>(&address)->sun_path;
    const size_t length = size - std::min<size_t>(size, offsetof(sockaddr_un, sun_path));
    std::string name(path, ::strnlen(path, length));
    if (length > 1 && path[0] == '\0') name = "@" + std::string(path + 1, length - 1);
    endpoint.unix_socket = name.empty() ? "@" : name;
}

void set_internet_address(Endpoint& endpoint, const sockaddr_storage& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.ss_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
        ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
        endpoint.port = ntohs(v4->sin_port);
    } else {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
        ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
        endpoint.port = ntohs(v6->sin6_port);
    }
    endpoint.host = text.data();
}

Endpoint passed_endpoint(const AddressOptions& options, const PassedSocket& passed) {
    Endpoint endpoint;
    endpoint.role = passed.name == "metrics" ? EndpointRole::metrics : EndpointRole::api;
    endpoint.descriptor = passed.descriptor;
    endpoint.has_tls = endpoint.role == EndpointRole::api && options.has_tls();
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int result =
        ::getsockname(passed.descriptor, reinterpret_cast<sockaddr*>(&address), &size);
    const bool is_internet = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    if (result != 0 || (!is_internet && address.ss_family != AF_UNIX)) {
        throw Error(ErrorKind::usage,
                    fmt::format("passed socket '{}': neither TCP nor a Unix socket", passed.name));
    }
    if (is_internet)
        set_internet_address(endpoint, address);
    else
        set_unix_address(endpoint, address, size);
    return endpoint;
}

std::vector<Endpoint> passed_endpoints(const AddressOptions& options,
                                       std::span<const PassedSocket> passed) {
    std::vector<Endpoint> endpoints;
    for (const PassedSocket& socket : passed) {
        if (socket.name == "admin") {
            throw Error(ErrorKind::usage,
                        "passed socket 'admin': administration listens at --admin-socket alone");
        }
        endpoints.push_back(passed_endpoint(options, socket));
    }
    std::ranges::stable_sort(endpoints, {}, &Endpoint::role);
    return endpoints;
}

Endpoint configured_endpoint(const AddressOptions& options) {
    return {.role = EndpointRole::api,
            .host = options.unix_socket.empty() ? options.host : "",
            .port = options.port,
            .unix_socket = options.unix_socket,
            .descriptor = {},
            .has_tls = options.has_tls()};
}

}  // namespace

std::vector<Endpoint> endpoints_of(const AddressOptions& options,
                                   std::span<const PassedSocket> passed) {
    std::vector<Endpoint> endpoints = passed_endpoints(options, passed);
    if (endpoints.empty() || endpoints.front().role != EndpointRole::api) {
        endpoints.insert(endpoints.begin(), configured_endpoint(options));
    }
    if (!options.admin_socket.empty()) {
        endpoints.push_back({.role = EndpointRole::admin,
                             .host = "",
                             .unix_socket = options.admin_socket,
                             .descriptor = {}});
    }
    if (options.metrics_port) {
        endpoints.push_back({.role = EndpointRole::metrics,
                             .host = "127.0.0.1",
                             .port = *options.metrics_port,
                             .unix_socket = {},
                             .descriptor = {}});
    }
    return endpoints;
}

std::string address_text(const Endpoint& endpoint) {
    if (!endpoint.unix_socket.empty()) return "unix:" + endpoint.unix_socket.string();
    const bool is_v6 = endpoint.host.find(':') != std::string::npos;
    return fmt::format("{}://{}:{}", endpoint.has_tls ? "https" : "http",
                       is_v6 ? "[" + endpoint.host + "]" : endpoint.host, endpoint.port);
}

}  // namespace nvllm::server
