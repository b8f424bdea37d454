// Whether a request asks for a WebSocket, and asks right (RFC 6455, 4.2.1).
#pragma once

#include <optional>

#include "lib/server/http/api_error.h"
#include "lib/server/http/http_message.h"

namespace nvllm::server {

bool wants_websocket(const HttpRequest& request);

// What is wrong with such a request; 426 for another version of the protocol.
std::optional<ApiError> check_upgrade(const HttpRequest& request);

}  // namespace nvllm::server
