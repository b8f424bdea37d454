// Framing of server-sent events (the WHATWG HTML standard, 9.2), as the clients of the APIs read
// them.
#pragma once

#include <string>
#include <string_view>

#include "lib/server/http/http_transaction.h"

namespace nvllm::server {

inline std::string sse_event(const StreamEvent& given) {
    std::string event;
    if (!given.name.empty()) event.append("event: ").append(given.name).append("\n");
    event.append("data: ").append(given.data).append("\n\n");
    return event;
}

inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

}  // namespace nvllm::server
