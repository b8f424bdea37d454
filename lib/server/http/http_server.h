// Listens, reads requests under limits and deadlines, and carries responses back: HTTP/1.1 and
// WebSocket, plain or with TLS, over TCP or Unix sockets.
//
// One I/O thread runs every connection as a coroutine; handlers are called on it and must not
// block.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/http/http_reader.h"
#include "lib/server/http/http_transaction.h"
#include "lib/server/http/timeout_kind.h"

namespace nvllm::server {

struct ConnectionLimits {
    HttpLimits http;
    int32_t max_connections = 4096;
    std::chrono::milliseconds header_timeout{10'000};  // for all of a request's head
    std::chrono::milliseconds body_timeout{30'000};    // for all of the body, and one second more
                                                       // for each MiB announced
    std::chrono::milliseconds idle_timeout{75'000};    // between two requests
    std::chrono::milliseconds write_timeout{30'000};   // while the client takes nothing
    std::chrono::milliseconds keep_alive_interval{15'000};  // comments in silent streams
};

// What may be asked at an address.
enum class EndpointRole {
    api,
    metrics,  // metrics and health only
    admin,    // administration; a Unix socket that only this user can open
};

struct Endpoint {
    EndpointRole role = EndpointRole::api;
    std::string host;                   // an address or a name; empty: none
    uint16_t port = 0;                  // 0: any free one
    std::filesystem::path unix_socket;  // instead of host and port
    // A listening socket that was passed by the service manager (socket activation), whose address
    // the above is then.
    std::optional<int> descriptor;
    bool has_tls = false;
};

struct TlsFiles {
    std::filesystem::path certificate;
    std::filesystem::path key;
};

// What the connections saw, for metrics. From any thread.
struct ConnectionCounts {
    std::atomic<int64_t> open{0};
    std::atomic<int64_t> accepted{0};
    std::atomic<int64_t> refused{0};       // over max_connections
    std::atomic<int64_t> bad_requests{0};  // not HTTP, or over a limit
    std::atomic<int64_t> streams{0};       // open event streams
    // Requests that were read and whose responses are not written in full.
    std::atomic<int64_t> responses_in_flight{0};
    std::atomic<int64_t> accept_faults{0};  // out of descriptors
};

// A request and what came of it, for logs and metrics.
struct CompletedRequest {
    const HttpRequest& request;  // empty when none could be read
    std::string request_id;
    int status = 0;
    double seconds = 0.0;
    uint64_t bytes = 0;  // of the response
    RequestNotes::Values notes;
};

class HttpServer {
  public:
    struct Callbacks {
        // Checks the head of a request before its body is read; a response refuses it.
        std::function<std::optional<HttpResponse>(const HttpRequest& head, const Endpoint&)> filter;
        // Whether a head asks how the server is: such requests are served even when all
        // connections are taken.
        std::function<bool(const HttpRequest& head)> is_probe;
        // The header that names a response without a handler; the head may be empty.
        std::function<HttpHeader(const HttpRequest& head)> name;
        // A request is complete.
        std::function<void(std::shared_ptr<HttpTransaction>, const Endpoint&)> handle;
        // A response went out in full, or not.
        std::function<void(const CompletedRequest&)> completed;
        // False while memory is short: few connections are accepted then.
        std::function<bool()> has_memory;
        // A client took too long.
        std::function<void(TimeoutKind)> timed_out;
    };

    HttpServer(const ConnectionLimits& limits, Callbacks callbacks);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    // Throws bad_config for a certificate or key that cannot be used. Before listen().
    void use_tls(const TlsFiles& files);
    // Begins to listen; returns the port. Throws unavailable when the address is taken, usage when
    // it makes no sense.
    uint16_t listen(const Endpoint& endpoint);

    // Runs the I/O thread's loop on this thread until it was shut down.
    void run();
    // From any thread.
    void post(std::function<void()> task);
    void post_after(std::chrono::milliseconds delay, std::function<void()> task);

    // From any thread: no further connections, and those that are idle end; requests in flight go
    // on, and their connections end after them.
    void close_listeners();
    // From any thread: no client is accepted at passed sockets any more (Endpoint::descriptor).
    // They go on listening for the next server that holds them: clients that connect wait for it.
    void close_passed_listeners();
    // From any thread: whatever still runs is cut off, streams with a last event; run() returns
    // when all connections have ended, or after `patience`.
    void shut_down(const std::string& last_event, std::chrono::milliseconds patience);

    const ConnectionCounts& counts() const;

  private:
    class Core;
    std::unique_ptr<Core> core_;
};

}  // namespace nvllm::server
