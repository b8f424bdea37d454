// An transaction as the connection that carries it sees it. Included by the few files that know
// Asio.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "lib/server/http/http_transaction.h"

namespace nvllm::server {

class PendingTransaction final : public HttpTransaction,
                                 public std::enable_shared_from_this<PendingTransaction> {
  public:
    // `num_under_way`: counts the exchanges that are not settled; outlives them.
    PendingTransaction(boost::asio::io_context& io, HttpRequest request,
                       std::atomic<int64_t>& num_under_way);
    ~PendingTransaction() override;

    void respond(HttpResponse response) override;
    void stream(std::shared_ptr<EventSource> source) override;
    void wake() override;
    void on_disconnect(std::function<void(DisconnectReason)> gone) override;

    // --- On the I/O thread ---

    // Until news or so long; true when there was news.
    boost::asio::awaitable<bool> wait_for(std::chrono::milliseconds limit);
    // Until news.
    boost::asio::awaitable<void> wait();
    bool has_responded() const;
    // One of the two, after the response.
    std::optional<HttpResponse> take_response();
    std::shared_ptr<EventSource> source() const;

    // The response is no longer wanted.
    void disconnected(DisconnectReason why);
    std::optional<DisconnectReason> departed() const;
    // The response is over: its source, and the callback at its end, are dropped, and so is
    // what is said from here on.
    void settle();
    bool is_settled() const;

  private:
    boost::asio::io_context& io_;
    boost::asio::steady_timer timer_;
    std::atomic<int64_t>& num_under_way_;
    std::atomic<bool> is_waking_ = false;
    bool has_events_ = false;  // on the I/O thread

    mutable std::mutex mutex_;
    bool is_settled_ = false;
    std::optional<HttpResponse> response_;
    std::shared_ptr<EventSource> source_;
    std::function<void(DisconnectReason)> gone_;
    std::optional<DisconnectReason> departed_;
};

}  // namespace nvllm::server
