// Blocking sockets whose system calls end in time.
#include "lib/system/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/system/unix_socket.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxResponseBytes = size_t{64} << 20;
constexpr size_t kMaxShownBytes = 400;

class HttpTransaction {
  public:
    HttpTransaction(const ServerAddress& server, double timeout_s)
        : server_(server),
          end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(timeout_s))) {}

    // The whole response, head and body.
    std::string run(const std::string& request) {
        const OwnedDescriptor socket =
            server_.unix_socket.empty() ? connect_by_name() : connect_to_socket_file();
        send_all(socket.get(), request);
        return receive_all(socket.get());
    }

  private:
    [[noreturn]] void fail(const std::string& why) const {
        throw Error(ErrorKind::unavailable, server_.text() + ": " + why);
    }

    // System calls that run out of time say EAGAIN, connect() EINPROGRESS.
    [[noreturn]] void fail_by_errno() const {
        const bool is_late = errno == EAGAIN || errno == EINPROGRESS;
        fail(is_late ? "no answer in time" : std::strerror(errno));
    }

    std::chrono::microseconds remaining() const {
        const auto left =
            std::chrono::duration_cast<std::chrono::microseconds>(end_ - Clock::now());
        if (left.count() <= 0) fail("no answer in time");
        return left;
    }

    void limit(int socket, int option) const {
        const int64_t left_us = remaining().count();
        const timeval limit{left_us / 1'000'000, left_us % 1'000'000};
        ::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof(limit));
    }

    OwnedDescriptor connect_to_socket_file() const {
        try {
            return connect_to_unix_socket(
                server_.unix_socket,
                std::chrono::duration_cast<std::chrono::milliseconds>(remaining()));
        } catch (const Error& error) {
            throw Error(ErrorKind::unavailable, error.what());
        }
    }

    OwnedDescriptor connect_by_name() const {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        const int fault = ::getaddrinfo(server_.host.c_str(), std::to_string(server_.port).c_str(),
                                        &hints, &list);
        if (fault != 0) fail(::gai_strerror(fault));
        const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(list, ::freeaddrinfo);
        for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
            OwnedDescriptor socket(
                ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
            if (!socket) continue;
            limit(socket.get(), SO_SNDTIMEO);
            if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) return socket;
        }
        fail_by_errno();
    }

    void send_all(int socket, std::string_view bytes) const {
        while (!bytes.empty()) {
            limit(socket, SO_SNDTIMEO);
            const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail_by_errno();
            bytes.remove_prefix(static_cast<size_t>(count));
        }
    }

    std::string receive_all(int socket) const {
        std::string response;
        std::string piece(16384, '\0');
        for (;;) {
            limit(socket, SO_RCVTIMEO);
            const ssize_t count = ::recv(socket, piece.data(), piece.size(), 0);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail_by_errno();
            if (count == 0) return response;
            response.append(piece, 0, static_cast<size_t>(count));
            if (response.size() > kMaxResponseBytes) fail("the answer does not end");
        }
    }

    const ServerAddress& server_;
    const Clock::time_point end_;
};

// "example.org:80", "[::1]:8000".
std::string authority(const ServerAddress& server) {
    const bool is_v6 = server.host.find(':') != std::string::npos;
    return fmt::format("{}:{}", is_v6 ? "[" + server.host + "]" : server.host, server.port);
}

std::string request_text(const ServerAddress& server, const std::string& path,
                         const std::vector<HttpHeader>& headers) {
    std::string text =
        fmt::format("GET {}{} HTTP/1.0\r\nUser-Agent: nanovllm\r\nConnection: close\r\n",
                    server.base_path, path);
    const std::string host = server.unix_socket.empty() ? authority(server) : "localhost";
    text += "Host: " + host + "\r\n";
    for (const HttpHeader& header : headers) {
        text += fmt::format("{}: {}\r\n", header.name, header.value);
    }
    return text + "\r\n";
}

// "200" of "HTTP/1.1 200 OK"; empty when the response begins with something else.
std::string status_of(const std::string& response) {
    const size_t space = response.find(' ');
    const bool is_http = response.starts_with("HTTP/") && space < response.find('\r');
    return is_http ? response.substr(space + 1, 3) : "";
}

}  // namespace

std::string ServerAddress::text() const {
    if (!unix_socket.empty()) return "unix:" + unix_socket.string();
    return "http://" + authority(*this) + base_path;
}

ServerAddress parse_server_url(const std::string& url, const std::string& option) {
    const auto fail = [&](const std::string& why) {
        return Error(ErrorKind::usage, fmt::format("{}: '{}': {}", option, url, why));
    };
    constexpr std::string_view kUnix = "unix:";
    constexpr std::string_view kScheme = "http://";
    ServerAddress server;
    if (url.starts_with(kUnix) && url.size() > kUnix.size()) {
        server.unix_socket = url.substr(kUnix.size());
        return server;
    }
    if (url.starts_with("https://")) throw fail("only http:// can be asked");
    if (!url.starts_with(kScheme)) throw fail("is not http://host:port and not unix:PATH");
    const std::string rest = url.substr(kScheme.size());
    const size_t slash = std::min(rest.find('/'), rest.size());
    std::string authority = rest.substr(0, slash);
    server.base_path = rest.substr(slash);
    while (server.base_path.ends_with('/')) server.base_path.pop_back();
    server.port = 80;
    const size_t colon = authority.rfind(':');
    if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
        const auto port = parse_integer<uint16_t>(authority.substr(colon + 1));
        if (!port || *port == 0) throw fail("has no port from 1 to 65535");
        server.port = *port;
        authority.resize(colon);
    }
    if (authority.starts_with('[') && authority.ends_with(']')) {
        authority = authority.substr(1, authority.size() - 2);
    }
    if (authority.empty()) throw fail("has no host");
    server.host = authority;
    return server;
}

std::string http_get(const ServerAddress& server, const std::string& path,
                     const std::vector<HttpHeader>& headers, double timeout_s) {
    const std::string response =
        HttpTransaction(server, timeout_s).run(request_text(server, path, headers));
    const size_t head_end = response.find("\r\n\r\n");
    const std::string status = status_of(response);
    const std::string where = server.text() + path;
    if (status.empty() || head_end == std::string::npos) {
        throw Error(ErrorKind::unavailable, where + ": the answer is not HTTP, or not whole");
    }
    std::string body = response.substr(head_end + 4);
    if (status == "200") return body;
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: status {}: {}", where, status, body.substr(0, kMaxShownBytes)));
}

}  // namespace nvllm
