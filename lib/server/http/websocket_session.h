// A connection that turned into a WebSocket: each text message is the body of a request to the
// route it was opened at; each event of the response is a message.
//
// Requests are served one after the other; a closed socket ends the one in flight.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <functional>
#include <memory>

#include "lib/server/http/http_server.h"
#include "lib/server/http/http_transaction.h"
#include "lib/server/http/transport.h"

namespace nvllm::server {

using TlsStream = asio::ssl::stream<Socket>;

class WebSocketSession {
  public:
    // `upgrade`: the request that asked for it; each message becomes a POST of its target.
    // `write_timed_out`: a client did not read, and is cut off.
    WebSocketSession(HttpRequest upgrade, const ConnectionLimits& limits, ConnectionCounts& counts,
                     std::function<void(std::shared_ptr<HttpTransaction>)> handle,
                     std::function<void()> write_timed_out)
        : upgrade_(std::move(upgrade)),
          limits_(limits),
          counts_(counts),
          handle_(std::move(handle)),
          write_timed_out_(std::move(write_timed_out)) {}

    asio::awaitable<void> run(Socket& stream);
    asio::awaitable<void> run(TlsStream& stream);

    // The server ends: the response in flight is cut off.
    std::function<void()> cut;

  private:
    template <typename Stream>
    asio::awaitable<void> speak(Stream& stream);

    HttpRequest upgrade_;
    const ConnectionLimits& limits_;
    ConnectionCounts& counts_;
    std::function<void(std::shared_ptr<HttpTransaction>)> handle_;
    std::function<void()> write_timed_out_;
};

}  // namespace nvllm::server
