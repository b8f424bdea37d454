// Hands responses from handlers' threads to the I/O thread.
#include "lib/server/http/pending_transaction.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/server/http/api_error.h"

namespace nvllm::server {

namespace asio = boost::asio;

PendingTransaction::PendingTransaction(asio::io_context& io, HttpRequest request,
                                       std::atomic<int64_t>& num_under_way)
    : io_(io), timer_(io), num_under_way_(num_under_way) {
    request_ = std::move(request);
    ++num_under_way_;
}

PendingTransaction::~PendingTransaction() {
    if (!is_settled_) --num_under_way_;
}

void PendingTransaction::respond(HttpResponse response) {
    {
        const std::lock_guard lock(mutex_);
        if (is_settled_ || response_ || source_ != nullptr) return;
        put_in_form(error_form, request_id, response);
        response_ = std::move(response);
    }
    wake();
}

void PendingTransaction::stream(std::shared_ptr<EventSource> source) {
    {
        const std::lock_guard lock(mutex_);
        if (is_settled_ || response_ || source_ != nullptr) return;
        source_ = std::move(source);
    }
    wake();
}

// Many wakes before the I/O thread gets to it are one.
void PendingTransaction::wake() {
    if (is_waking_.exchange(true)) return;
    try {
        asio::post(io_, [self = shared_from_this()] {
            self->is_waking_ = false;
            self->has_events_ = true;
            self->timer_.cancel();
        });
    } catch (...) {
        is_waking_ = false;
        throw;
    }
}

void PendingTransaction::on_disconnect(std::function<void(DisconnectReason)> gone) {
    {
        const std::lock_guard lock(mutex_);
        if (!departed_) {
            if (!is_settled_) gone_ = std::move(gone);
            return;
        }
    }
    asio::post(io_, [gone = std::move(gone), why = *departed()] { gone(why); });
}

asio::awaitable<bool> PendingTransaction::wait_for(std::chrono::milliseconds limit) {
    if (!has_events_) {
        timer_.expires_after(limit);
        boost::system::error_code woken;
        co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    }
    co_return std::exchange(has_events_, false);
}

asio::awaitable<void> PendingTransaction::wait() {
    bool has_events = false;
    while (!has_events) has_events = co_await wait_for(std::chrono::hours(24));
}

bool PendingTransaction::has_responded() const {
    const std::lock_guard lock(mutex_);
    return response_ || source_ != nullptr;
}

std::optional<HttpResponse> PendingTransaction::take_response() {
    const std::lock_guard lock(mutex_);
    return std::move(response_);
}

std::shared_ptr<EventSource> PendingTransaction::source() const {
    const std::lock_guard lock(mutex_);
    return source_;
}

void PendingTransaction::disconnected(DisconnectReason why) {
    std::function<void(DisconnectReason)> gone;
    {
        const std::lock_guard lock(mutex_);
        if (departed_) return;
        departed_ = why;
        gone = std::move(gone_);
    }
    if (gone) gone(why);
    has_events_ = true;
    timer_.cancel();
}

std::optional<DisconnectReason> PendingTransaction::departed() const {
    const std::lock_guard lock(mutex_);
    return departed_;
}

// Handlers hold the transaction, so it must not hold on to what is theirs.
void PendingTransaction::settle() {
    std::function<void(DisconnectReason)> gone;
    std::shared_ptr<EventSource> source;
    {
        const std::lock_guard lock(mutex_);
        if (!std::exchange(is_settled_, true)) --num_under_way_;
        gone.swap(gone_);
        source.swap(source_);
    }
}

bool PendingTransaction::is_settled() const {
    const std::lock_guard lock(mutex_);
    return is_settled_;
}

}  // namespace nvllm::server
