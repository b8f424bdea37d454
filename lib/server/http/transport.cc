// Both transports from one template.
#include "lib/server/http/transport.h"

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "lib/server/http/websocket_session.h"

namespace nvllm::server {
namespace {

using asio::use_awaitable;

template <typename Stream>
class StreamTransport : public Transport {
  public:
    template <typename... Arguments>
    explicit StreamTransport(Arguments&&... arguments)
        : stream_(std::forward<Arguments>(arguments)...) {}

    asio::awaitable<size_t> read_some(std::span<char> space) override {
        const size_t count = co_await stream_.async_read_some(
            asio::buffer(space.data(), space.size()), use_awaitable);
        co_return count;
    }
    asio::awaitable<void> write(std::string_view bytes) override {
        co_await asio::async_write(stream_, asio::buffer(bytes), use_awaitable);
    }
    asio::awaitable<void> run(WebSocketSession& session) override { co_await session.run(stream_); }

  protected:
    Stream stream_;
};

class PlainTransport final : public StreamTransport<Socket> {
  public:
    using StreamTransport::StreamTransport;
    asio::awaitable<void> handshake() override { co_return; }
    asio::awaitable<void> finish() override {
        boost::system::error_code gone;
        stream_.shutdown(Socket::shutdown_send, gone);
        co_return;
    }
    Socket& socket() override { return stream_; }
};

class TlsTransport final : public StreamTransport<TlsStream> {
  public:
    using StreamTransport::StreamTransport;
    asio::awaitable<void> handshake() override {
        co_await stream_.async_handshake(asio::ssl::stream_base::server, use_awaitable);
    }
    asio::awaitable<void> finish() override { co_await stream_.async_shutdown(use_awaitable); }
    Socket& socket() override { return stream_.next_layer(); }
};

}  // namespace

std::unique_ptr<Transport> plain_transport(Socket socket) {
    return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> tls_transport(Socket socket, asio::ssl::context& context) {
    return std::make_unique<TlsTransport>(std::move(socket), context);
}

}  // namespace nvllm::server
