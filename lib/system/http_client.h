// One small question to an HTTP server, over TCP or a Unix socket: blocking, with one time limit
// for all of it but the look-up of a name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nvllm {

struct ServerAddress {
    std::string host = "127.0.0.1";
    uint16_t port = 8000;
    std::string base_path;              // before every path, without a slash at its end
    std::filesystem::path unix_socket;  // instead of host and port

    // "http://127.0.0.1:8000/v1", "unix:/run/server.sock".
    std::string text() const;
};

// "http://host:port/path", where the port is 80 when none is named, or "unix:/path/of/socket".
// Throws usage, naming `option`, for anything else, https among it.
ServerAddress parse_server_url(const std::string& url, const std::string& option);

struct HttpHeader {
    std::string name, value;
};

// The body of a GET, sent as HTTP/1.0 so that no response comes in chunks. Throws unavailable, with
// the status or the reason, when there is no response of 200 within the time.
std::string http_get(const ServerAddress& server, const std::string& path,
                     const std::vector<HttpHeader>& headers, double timeout_s);

}  // namespace nvllm
