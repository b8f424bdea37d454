// WebSocket (RFC 6455) by Boost.Beast: messages in, events out.
#include "lib/server/http/websocket_session.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <deque>

#include "lib/server/http/pending_transaction.h"

namespace nvllm::server {
namespace {

namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::use_awaitable;

// Messages that may wait while a response is in flight; further ones are not read yet.
constexpr size_t kMaxWaiting = 8;

beast::http::request<beast::http::empty_body> as_beast(const HttpRequest& request) {
    beast::http::request<beast::http::empty_body> upgrade(beast::http::verb::get, request.target,
                                                          11);
    for (const HttpHeader& header : request.headers) upgrade.insert(header.name, header.value);
    return upgrade;
}

// One socket and what waits for it, shared by the coroutine that reads and the one that responds.
template <typename Stream>
struct Conversation : std::enable_shared_from_this<Conversation<Stream>> {
    Conversation(Stream& stream, asio::io_context& given_io, std::chrono::milliseconds limit)
        : io(given_io), socket(stream), pending(io), patience(io), write_timeout(limit) {}
    ~Conversation() {
        if (transaction != nullptr) transaction->settle();
    }

    asio::io_context& io;
    websocket::stream<Stream&> socket;
    asio::steady_timer pending;
    asio::steady_timer patience;  // with the client, to take what is sent
    const std::chrono::milliseconds write_timeout;
    std::function<void()> write_timed_out;
    std::deque<std::string> messages;
    std::shared_ptr<PendingTransaction> transaction;
    bool is_over = false;

    void end(DisconnectReason why) {
        is_over = true;
        pending.cancel();
        if (transaction != nullptr) transaction->disconnected(why);
    }

    asio::awaitable<void> sleep() {
        pending.expires_after(std::chrono::hours(24));
        boost::system::error_code woken;
        co_await pending.async_wait(asio::redirect_error(use_awaitable, woken));
    }

    asio::awaitable<void> read() {
        boost::system::error_code fault;
        while (!fault && !is_over) {
            beast::flat_buffer buffer;
            co_await socket.async_read(buffer, asio::redirect_error(use_awaitable, fault));
            if (fault) break;
            messages.push_back(beast::buffers_to_string(buffer.data()));
            pending.cancel();
            while (messages.size() >= kMaxWaiting && !is_over) {
                pending.expires_after(std::chrono::milliseconds(50));
                boost::system::error_code woken;
                co_await pending.async_wait(asio::redirect_error(use_awaitable, woken));
            }
        }
        end(DisconnectReason::closed);
    }

    // False when the client is gone or does not read.
    asio::awaitable<bool> send(std::string_view text) {
        boost::system::error_code fault;
        bool is_whole = false;
        while (!fault && !is_whole) {
            const auto piece = asio::buffer(text.substr(0, kWriteBytes));
            text.remove_prefix(piece.size());
            is_whole = text.empty();
            limit_write();
            co_await socket.async_write_some(is_whole, piece,
                                             asio::redirect_error(use_awaitable, fault));
            patience.expires_at(asio::steady_timer::time_point::max());
        }
        co_return !fault;
    }

    void limit_write() {
        patience.expires_after(write_timeout);
        patience.async_wait([weak = this->weak_from_this()](boost::system::error_code cancelled) {
            const auto self = weak.lock();
            if (!cancelled && self != nullptr) self->cut_off();
        });
    }

    // A write that ended just now has set the timer anew.
    void cut_off() {
        if (patience.expiry() > std::chrono::steady_clock::now()) return;
        write_timed_out();
        end(DisconnectReason::stalled);
        boost::system::error_code closed;
        beast::get_lowest_layer(socket).close(closed);
    }
};

template <typename Stream>
asio::awaitable<bool> send_events(Conversation<Stream>& talk, PendingTransaction& transaction) {
    const std::shared_ptr<EventSource> source = transaction.source();
    StreamState state = StreamState::open;
    std::vector<StreamEvent> events;
    while (state == StreamState::open && !transaction.departed()) {
        state = source->take(events);
        for (const StreamEvent& event : events) {
            const bool is_sent = co_await talk.send(event.data);
            if (!is_sent) co_return false;
        }
        events.clear();
        if (state == StreamState::open) co_await transaction.wait();
    }
    co_return state != StreamState::open;
}

template <typename Stream>
asio::awaitable<bool> send_response(Conversation<Stream>& talk, PendingTransaction& transaction) {
    while (!transaction.has_responded() && !transaction.departed()) co_await transaction.wait();
    bool is_sent = false;
    if (const auto response = transaction.take_response()) {
        is_sent = co_await talk.send(response->body);
    } else if (transaction.source() != nullptr) {
        is_sent = co_await send_events(talk, transaction);
    }
    co_return is_sent;
}

}  // namespace

template <typename Stream>
asio::awaitable<void> WebSocketSession::speak(Stream& stream) {
    auto& io = static_cast<asio::io_context&>(stream.get_executor().context());
    auto talk = std::make_shared<Conversation<Stream>>(stream, io, limits_.write_timeout);
    talk->write_timed_out = write_timed_out_;
    websocket::stream_base::timeout timeouts{limits_.header_timeout, limits_.idle_timeout, true};
    talk->socket.set_option(timeouts);
    talk->socket.set_option(
        websocket::stream_base::decorator([](websocket::response_type& response) {
            response.set(beast::http::field::server, "nvllm-serve");
        }));
    talk->socket.read_message_max(limits_.http.max_body_bytes);
    co_await talk->socket.async_accept(as_beast(upgrade_), use_awaitable);
    talk->socket.text(true);
    cut = [weak = std::weak_ptr(talk)] {
        if (const auto active = weak.lock()) active->end(DisconnectReason::shut_down);
    };
    asio::co_spawn(io, talk->read(), [talk](std::exception_ptr) {});
    while (!talk->is_over) {
        if (talk->messages.empty()) {
            co_await talk->sleep();
            continue;
        }
        HttpRequest request = upgrade_;
        request.method = "POST";
        request.body = std::move(talk->messages.front());
        talk->messages.pop_front();
        talk->transaction = std::make_shared<PendingTransaction>(io, std::move(request),
                                                                 counts_.responses_in_flight);
        handle_(talk->transaction);
        const bool goes_on = co_await send_response(*talk, *talk->transaction);
        if (!goes_on) talk->transaction->disconnected(DisconnectReason::closed);
        talk->transaction->settle();
        talk->transaction.reset();
        if (!goes_on) break;
    }
    boost::system::error_code gone;
    co_await talk->socket.async_close(websocket::close_code::going_away,
                                      asio::redirect_error(use_awaitable, gone));
    while (!talk->is_over) co_await talk->sleep();  // the reading coroutine uses the socket
}

asio::awaitable<void> WebSocketSession::run(Socket& stream) { co_await speak(stream); }
asio::awaitable<void> WebSocketSession::run(TlsStream& stream) { co_await speak(stream); }

}  // namespace nvllm::server
