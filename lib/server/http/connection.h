// One connection: requests in, responses out, one after the other, under deadlines. Included by the
// few files that know Asio.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "lib/server/http/http_server.h"
#include "lib/server/http/pending_transaction.h"
#include "lib/server/http/transport.h"

namespace nvllm::server {

// What all connections of a server share; outlives them.
struct ConnectionContext {
    asio::io_context& io;
    const ConnectionLimits& limits;
    const HttpServer::Callbacks& callbacks;
    ConnectionCounts& counts;
    bool is_closing = false;  // connections end after the request in flight
};

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(ConnectionContext& context, std::unique_ptr<Transport> transport,
               const Endpoint& endpoint);
    ~Connection();

    asio::awaitable<void> run();
    // Instead, when all connections are taken: one probe is served; for every other request, or
    // when nothing comes soon, this is the response.
    asio::awaitable<void> turn_away(ApiError error);

    // Ends it when no request is in flight.
    void close_if_idle();
    // Cuts the response in flight off; a stream gets this last event. Ends it when there is none.
    void cut(const std::string& last_event);

  private:
    asio::awaitable<void> live(asio::awaitable<void> life);
    asio::awaitable<void> serve();
    asio::awaitable<void> serve_probe();
    asio::awaitable<bool> read_request();
    asio::awaitable<bool> read_until(HttpReader::Stage stage);
    asio::awaitable<bool> refuse_head(HttpResponse refusal);
    asio::awaitable<void> refuse(const ApiError& error);
    CompletedRequest name_refusal(const HttpRequest& head, HttpResponse& response);
    asio::awaitable<void> discard_rest();
    asio::awaitable<bool> serve_request();
    asio::awaitable<bool> respond(const HttpRequest& request, HttpResponse response);
    asio::awaitable<bool> stream(PendingTransaction& transaction);
    asio::awaitable<bool> stream_events(PendingTransaction& transaction, std::string& bytes);
    asio::awaitable<void> speak_websocket();
    asio::awaitable<void> watch_peer(std::shared_ptr<PendingTransaction> transaction);
    bool peer_has_left();
    asio::awaitable<bool> write(std::string_view bytes);
    std::string framed(std::string_view bytes) const;

    // While armed, the socket's operations fail when the time has passed.
    void arm(std::chrono::milliseconds limit);
    void await_deadline(uint64_t number);
    void disarm();
    // Operations in flight fail.
    void cancel_operations();

    ConnectionContext& context_;
    std::unique_ptr<Transport> transport_;
    const Endpoint& endpoint_;
    HttpReader reader_;
    asio::steady_timer deadline_;
    uint64_t deadline_number_ = 0;
    bool has_timed_out_ = false;
    bool is_idle_ = false;
    bool is_first_ = true;  // no request has come yet
    bool is_chunked_ = false;
    std::optional<ApiError> full_;  // only probes are served; the response to other requests
    uint64_t written_bytes_ = 0;    // of the response in flight
    std::shared_ptr<PendingTransaction> transaction_;
    std::function<void()> cut_websocket_;
    std::string last_event_;
};

}  // namespace nvllm::server
