// Asks a running server whether it is ready, as a container or a script does that has no other
// client at hand.
#pragma once

#include "lib/server/config/server_config.h"
#include "lib/system/http_client.h"

namespace nvllm::server {

// Where a server with these options serves /health to this machine, in clear text: at the
// metrics port when there is one, else at the Unix socket, else at the API's port. Throws usage for
// a server that speaks TLS alone, and for one whose port is not known beforehand (0).
ServerAddress health_address(const ServerConfig& config);

// Throws unavailable unless the server says within a few seconds that it is ready.
void check_health(const ServerAddress& server);

}  // namespace nvllm::server
