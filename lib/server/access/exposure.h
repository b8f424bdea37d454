// Refuses to listen beyond this machine without a key.
#pragma once

#include <span>
#include <string>

#include "lib/server/access/key_options.h"
#include "lib/server/http/http_server.h"

namespace nvllm::server {

// Throws usage if every client that reaches `host` could send requests: the host is beyond this
// machine, there is no key, and --allow-unauthenticated is not given.
void check_exposure(const KeyOptions& keys, const std::string& host);

// The same for the API's passed sockets.
void check_exposure(const KeyOptions& keys, std::span<const Endpoint> endpoints);

}  // namespace nvllm::server
