// GET /health.
#include "lib/server/health_check.h"

#include "kernels/error.h"

namespace nvllm::server {
namespace {

constexpr double kTimeout_s = 3.0;

// An address that stands for all of a machine's is reached at the loopback.
std::string reachable(const std::string& host) {
    if (host == "0.0.0.0") return "127.0.0.1";
    return host == "::" ? "::1" : host;
}

}  // namespace

ServerAddress health_address(const ServerConfig& config) {
    ServerAddress server;
    const AddressOptions& addresses = config.addresses;
    if (addresses.metrics_port) {
        server.port = *addresses.metrics_port;
    } else if (addresses.has_tls()) {
        throw Error(ErrorKind::usage,
                    "--health asks without TLS: give the server a --metrics-port, and ask there");
    } else if (!addresses.unix_socket.empty()) {
        server.unix_socket = addresses.unix_socket;
    } else {
        server.host = reachable(addresses.host);
        server.port = addresses.port;
    }
    if (server.unix_socket.empty() && server.port == 0) {
        throw Error(ErrorKind::usage, "--health: which port? It is 0, any free one: give the URL");
    }
    return server;
}

void check_health(const ServerAddress& server) { http_get(server, "/health", {}, kTimeout_s); }

}  // namespace nvllm::server
