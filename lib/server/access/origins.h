// Origins of web pages and desktop programs (RFC 6454), as the Origin header has them.
#pragma once

#include <string_view>

namespace nvllm::server {

// "example.org" of "example.org:8000", "::1" of "[::1]:8000".
std::string_view without_port(std::string_view host);

// Whether a pattern of --allowed-origins means this origin. In a pattern `*` alone means all
// origins, `:*` at its end any port or none, and any other `*` a run of letters of a host:
// "https://*.example.org", "http://localhost:*", "chrome-extension://*".
bool matches_origin(std::string_view pattern, std::string_view origin);

// A page that this machine serves to itself, or a program of its desktop (Electron, Tauri, VS
// Code): no page of the web can have such an origin. "null" is none of them, since any page can
// have it, in a sandboxed frame.
bool is_local_origin(std::string_view origin);

// Whether the page was served by `host`, the request's own Host header. The names of the loopback
// are the same host.
bool is_same_origin(std::string_view origin, std::string_view host);

}  // namespace nvllm::server
