// Framing of server-sent events (the WHATWG HTML standard, 9.2), as OpenAI clients read them.
#pragma once

#include <string>
#include <string_view>

namespace nvllm::server {

// `json` holds no line break.
inline std::string sse_event(std::string_view json) {
    std::string event = "data: ";
    event += json;
    event += "\n\n";
    return event;
}

inline constexpr std::string_view kSseEnd = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

}  // namespace nvllm::server
