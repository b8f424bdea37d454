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
    if (config.metrics_port) {
        server.port = *config.metrics_port;
    } else if (config.has_tls()) {
        throw Error(ErrorKind::usage,
                    "--health asks without TLS: give the server a --metrics-port, and ask there");
    } else if (!config.unix_socket.empty()) {
        server.unix_socket = config.unix_socket;
    } else {
        server.host = reachable(config.host);
        server.port = config.port;
    }
    if (server.unix_socket.empty() && server.port == 0) {
        throw Error(ErrorKind::usage, "--health: which port? It is 0, any free one: give the URL");
    }
    return server;
}

void check_health(const ServerAddress& server) { http_get(server, "/health", {}, kTimeout_s); }

}  // namespace nvllm::server
