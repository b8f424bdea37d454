// Where the server listens: at what its options name, or at sockets that the service manager
// opened.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/server/http/address_options.h"
#include "lib/server/http/http_server.h"
#include "lib/system/service_manager.h"

namespace nvllm::server {

// The API's first. A passed socket is called "metrics" when metrics and health alone are to be
// asked there; any other name is the API's, and with one of those --host, --port and --uds mean
// nothing. Throws usage for a passed socket that every client could use without a key, and for one
// that is called "admin": --admin-socket opens that one itself, for its owner alone.
std::vector<Endpoint> endpoints_of(const AddressOptions& options,
                                   std::span<const PassedSocket> passed);

// "http://127.0.0.1:8000", "unix:/run/server.sock".
std::string address_text(const Endpoint& endpoint);

}  // namespace nvllm::server
