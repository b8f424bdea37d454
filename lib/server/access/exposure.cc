// Compares addresses with keys.
#include "lib/server/access/exposure.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/server/http/address_options.h"

namespace nvllm::server {

void check_exposure(const KeyOptions& keys, const std::string& host) {
    if (is_loopback(host) || keys.has_key() || keys.allow_unauthenticated) return;
    throw Error(ErrorKind::usage,
                fmt::format("--host {}: anybody who reaches this machine could use the model: give "
                            "keys with --api-key-file, or say --allow-unauthenticated",
                            host));
}

void check_exposure(const KeyOptions& keys, std::span<const Endpoint> endpoints) {
    for (const Endpoint& endpoint : endpoints) {
        const bool is_tcp = endpoint.unix_socket.empty();
        const bool is_api = endpoint.role == EndpointRole::api;
        if (endpoint.descriptor && is_api && is_tcp) check_exposure(keys, endpoint.host);
    }
}

}  // namespace nvllm::server
