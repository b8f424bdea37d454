// A connected socket, encrypted or not, as coroutines on the I/O thread. Included by the few files
// that know Asio.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <span>
#include <string_view>

namespace nvllm::server {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;

class WebSocketSession;

// What a client has the write timeout to take: one that reads, however slowly, is not cut off for
// the length of its response.
constexpr size_t kWriteBytes = 64 * 1024;

class Transport {
  public:
    virtual ~Transport() = default;

    virtual asio::awaitable<void> handshake() = 0;
    // Throws boost::system::system_error; asio::error::eof when the peer has ended.
    virtual asio::awaitable<size_t> read_some(std::span<char> space) = 0;
    virtual asio::awaitable<void> write(std::string_view bytes) = 0;
    // Says goodbye in the protocol's own way, where it has one.
    virtual asio::awaitable<void> finish() = 0;
    // Speaks WebSocket from here on, until it is over.
    virtual asio::awaitable<void> run(WebSocketSession& session) = 0;

    virtual Socket& socket() = 0;
};

std::unique_ptr<Transport> plain_transport(Socket socket);
std::unique_ptr<Transport> tls_transport(Socket socket, asio::ssl::context& context);

}  // namespace nvllm::server
