// The life of a connection.
#include "lib/server/http/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>

#include "lib/base/log.h"
#include "lib/server/http/event_stream.h"
#include "lib/server/http/websocket_session.h"
#include "lib/server/http/websocket_upgrade.h"

namespace nvllm::server {
namespace {

using asio::use_awaitable;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kReadBytes = 8 * 1024;
// How long what a refused client still sends is read and thrown away, so that it sees the response.
constexpr milliseconds kLinger{2000};
// Bytes of the next request may hide that the client has left: then it is asked for this often.
constexpr milliseconds kPeerPause{100};
// What a client may take for its head when all connections are taken.
constexpr milliseconds kProbePatience{1000};
// An operation that begins just when the deadline has passed is stopped so much later.
constexpr milliseconds kDeadlineRepeat{20};

}  // namespace

Connection::Connection(ConnectionContext& context, std::unique_ptr<Transport> transport,
                       const Endpoint& endpoint)
    : context_(context),
      transport_(std::move(transport)),
      endpoint_(endpoint),
      reader_(context.limits.http),
      deadline_(context.io) {}

// A handler that still waits here must not keep its transaction alive.
Connection::~Connection() {
    if (transaction_ != nullptr) transaction_->settle();
}

void Connection::arm(milliseconds limit) {
    deadline_.expires_after(limit);
    await_deadline(++deadline_number_);
}

void Connection::await_deadline(uint64_t number) {
    deadline_.async_wait([self = weak_from_this(), number](auto cancelled) {
        const auto connection = self.lock();
        if (cancelled || connection == nullptr || connection->deadline_number_ != number) return;
        connection->has_timed_out_ = true;
        connection->cancel_operations();
        connection->deadline_.expires_after(kDeadlineRepeat);
        connection->await_deadline(number);
    });
}

void Connection::cancel_operations() {
    boost::system::error_code closed;
    transport_->socket().cancel(closed);
}

void Connection::disarm() {
    ++deadline_number_;
    deadline_.cancel();
}

void Connection::close_if_idle() {
    if (is_idle_) cancel_operations();
}

void Connection::cut(const std::string& last_event) {
    last_event_ = last_event;
    if (cut_websocket_) {
        cut_websocket_();
    } else if (transaction_ != nullptr) {
        transaction_->disconnected(DisconnectReason::shut_down);
    } else {
        cancel_operations();
    }
}

asio::awaitable<void> Connection::run() { co_await live(serve()); }

asio::awaitable<void> Connection::turn_away(ApiError error) {
    full_ = std::move(error);
    co_await live(serve_probe());
}

asio::awaitable<void> Connection::live(asio::awaitable<void> life) {
    ++context_.counts.open;
    try {
        arm(context_.limits.header_timeout);
        co_await transport_->handshake();
        co_await std::move(life);
        arm(kLinger);
        co_await transport_->finish();
    } catch (const boost::system::system_error&) {
        // The peer has gone, or took too long: no response can reach it.
    } catch (const std::exception& failure) {
        log_error(fmt::format("a connection failed: {}", failure.what()));
    }
    disarm();
    boost::system::error_code closed;
    transport_->socket().close(closed);
    --context_.counts.open;
}

asio::awaitable<void> Connection::serve() {
    bool goes_on = co_await read_request();
    while (goes_on) {
        if (wants_websocket(reader_.head())) {
            co_await speak_websocket();
            co_return;
        }
        goes_on = co_await serve_request();
        if (goes_on) goes_on = co_await read_request();
    }
}

asio::awaitable<void> Connection::serve_probe() {
    arm(std::min(context_.limits.header_timeout, kProbePatience));
    const bool has_head = co_await read_until(HttpReader::Stage::body);
    if (!has_head) co_return;
    auto refusal = context_.callbacks.filter(reader_.head(), endpoint_);
    if (!context_.callbacks.is_probe(reader_.head())) refusal = error_response(*full_);
    if (refusal) {
        refusal->closes = true;
        co_await refuse_head(std::move(*refusal));
        co_await discard_rest();
        co_return;
    }
    const bool is_whole = co_await read_until(HttpReader::Stage::done);
    disarm();
    if (is_whole) co_await serve_request();
}

// False when there is none, or it was refused, and the connection has to end.
asio::awaitable<bool> Connection::read_request() {
    bool is_refused = true;
    while (is_refused) {
        if (reader_.is_between_requests() && context_.is_closing) co_return false;
        is_idle_ = reader_.is_between_requests();
        arm(is_idle_ && !is_first_ ? context_.limits.idle_timeout : context_.limits.header_timeout);
        const bool has_head = co_await read_until(HttpReader::Stage::body);
        if (!has_head) co_return false;
        is_first_ = false;
        auto refusal = context_.callbacks.filter(reader_.head(), endpoint_);
        is_refused = refusal.has_value();
        if (!is_refused) continue;
        const bool goes_on = co_await refuse_head(std::move(*refusal));
        if (!goes_on) co_return false;
    }
    if (reader_.expects_continue() && reader_.stage() == HttpReader::Stage::body) {
        co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    arm(context_.limits.body_timeout +
        std::chrono::seconds(reader_.announced_body_bytes().value_or(0) >> 20));
    const bool is_whole = co_await read_until(HttpReader::Stage::done);
    disarm();
    co_return is_whole;
}

// Its body is not waited for: with one that is still to come, the connection ends. True when it
// goes on.
asio::awaitable<bool> Connection::refuse_head(HttpResponse refusal) {
    const bool has_body = reader_.stage() == HttpReader::Stage::body;
    refusal.closes |= has_body;
    CompletedRequest completed = name_refusal(reader_.head(), refusal);
    const bool goes_on = co_await respond(reader_.head(), std::move(refusal));
    completed.bytes = written_bytes_;
    context_.callbacks.completed(completed);
    if (has_body) co_await discard_rest();
    if (goes_on) reader_.take();
    co_return goes_on;
}

// Reads on until the request is at least at this stage.
asio::awaitable<bool> Connection::read_until(HttpReader::Stage stage) {
    std::array<char, kReadBytes> space;
    while (reader_.stage() < stage) {
        boost::system::error_code fault;
        size_t count = 0;
        try {
            count = co_await transport_->read_some(space);
        } catch (const boost::system::system_error& failure) {
            fault = failure.code();
        }
        if (fault) {
            if (!has_timed_out_ || is_idle_) co_return false;
            context_.callbacks.timed_out(stage == HttpReader::Stage::body ? TimeoutKind::header
                                                                          : TimeoutKind::body);
            has_timed_out_ = false;
            const ApiError late{.status = 408,
                                .message = "the request did not arrive in time",
                                .code = "request_timeout"};
            co_await refuse(full_ ? *full_ : late);
            co_return false;
        }
        if (std::exchange(is_idle_, false)) arm(context_.limits.header_timeout);
        reader_.feed({space.data(), count});
    }
    if (reader_.stage() != HttpReader::Stage::refused) co_return true;
    if (reader_.error().status != 503) ++context_.counts.bad_requests;
    co_await refuse(reader_.error());
    co_return false;
}

asio::awaitable<void> Connection::refuse(const ApiError& error) {
    HttpResponse response = error_response(error);
    response.closes = true;
    // Named: GCC 12 ends the life of an aggregate written inside co_await twice.
    const HttpRequest unread;
    CompletedRequest completed = name_refusal(unread, response);
    co_await respond(unread, std::move(response));
    completed.bytes = written_bytes_;
    context_.callbacks.completed(completed);
    co_await discard_rest();
}

// Of a response without a handler.
CompletedRequest Connection::name_refusal(const HttpRequest& head, HttpResponse& response) {
    written_bytes_ = 0;
    response.headers.push_back(context_.callbacks.name(head));
    CompletedRequest completed{.request = head,
                               .request_id = response.headers.back().value,
                               .status = response.status,
                               .notes = {}};
    completed.notes.error = response.error;
    completed.notes.param = response.param;
    return completed;
}

asio::awaitable<void> Connection::discard_rest() {
    boost::system::error_code gone;
    transport_->socket().shutdown(Socket::shutdown_send, gone);
    arm(kLinger);
    std::array<char, kReadBytes> space;
    size_t count = 1;
    while (count > 0) count = co_await transport_->read_some(space);
}

// False when the connection has to end.
asio::awaitable<bool> Connection::serve_request() {
    const Clock::time_point start = Clock::now();
    transaction_ = std::make_shared<PendingTransaction>(context_.io, reader_.take(),
                                                        context_.counts.responses_in_flight);
    const std::shared_ptr<PendingTransaction> transaction = transaction_;
    written_bytes_ = 0;
    context_.callbacks.handle(transaction, endpoint_);
    const bool is_at_once = transaction->has_responded() && transaction->source() == nullptr;
    if (!is_at_once) asio::co_spawn(context_.io, watch_peer(transaction), asio::detached);
    while (!transaction->has_responded() && !transaction->departed()) co_await transaction->wait();

    bool goes_on = false;
    int status = 499;  // the client left before there was a response
    if (auto response = transaction->take_response()) {
        status = response->status;
        if (!response->error.empty())
            transaction->notes.set_error(response->error, response->param);
        std::ranges::move(transaction->response_headers, std::back_inserter(response->headers));
        goes_on = co_await respond(transaction->request(), std::move(*response));
    } else if (transaction->source() != nullptr) {
        status = 200;
        goes_on = co_await stream(*transaction);
    } else if (transaction->departed() == DisconnectReason::shut_down) {
        status = 503;
        HttpResponse farewell = error_response(shutting_down());
        put_in_form(transaction->error_form, transaction->request_id, farewell);
        co_await respond(transaction->request(), std::move(farewell));
    }
    if (!goes_on)
        transaction->disconnected(has_timed_out_ ? DisconnectReason::stalled
                                                 : DisconnectReason::closed);
    transaction->settle();
    transaction_.reset();
    if (!is_at_once) cancel_operations();  // only the watch for its end is active
    // Named: as above.
    const CompletedRequest completed{
        .request = transaction->request(),
        .request_id = transaction->request_id,
        .status = status,
        .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
        .bytes = written_bytes_,
        .notes = transaction->notes.values()};
    context_.callbacks.completed(completed);
    co_return goes_on;
}

asio::awaitable<bool> Connection::respond(const HttpRequest& request, HttpResponse response) {
    const bool goes_on = request.keep_alive && !response.closes && !context_.is_closing && !full_;
    std::string bytes = response_head(response, response.body.size(), request.version, goes_on);
    if (request.method != "HEAD" && response.status != 204) bytes += response.body;
    const bool is_written = co_await write(bytes);
    co_return is_written&& goes_on;
}

// False when the client is gone or does not read.
asio::awaitable<bool> Connection::write(std::string_view bytes) {
    bool is_written = true;
    while (is_written && !bytes.empty()) {
        const std::string_view piece = bytes.substr(0, kWriteBytes);
        arm(context_.limits.write_timeout);
        try {
            co_await transport_->write(piece);
            written_bytes_ += piece.size();
        } catch (const boost::system::system_error&) {
            is_written = false;
        }
        bytes.remove_prefix(piece.size());
    }
    disarm();
    if (!is_written && has_timed_out_) context_.callbacks.timed_out(TimeoutKind::write);
    co_return is_written;
}

std::string Connection::framed(std::string_view bytes) const {
    return is_chunked_ ? chunk(bytes) : std::string(bytes);
}

// A response that failed, or whose client did not wait for it, is not ended as a whole one is.
asio::awaitable<bool> Connection::stream(PendingTransaction& transaction) {
    const HttpRequest& request = transaction.request();
    is_chunked_ = request.version >= 11;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    std::ranges::move(transaction.response_headers, std::back_inserter(head.headers));
    const bool goes_on = is_chunked_ && request.keep_alive && !context_.is_closing;
    std::string bytes = response_head(head, std::nullopt, request.version, goes_on);
    ++context_.counts.streams;
    const bool is_whole = co_await stream_events(transaction, bytes);
    --context_.counts.streams;
    co_return is_whole&& goes_on && !context_.is_closing;
}

// `bytes`: what goes before the first event.
asio::awaitable<bool> Connection::stream_events(PendingTransaction& transaction,
                                                std::string& bytes) {
    const std::shared_ptr<EventSource> source = transaction.source();
    std::vector<StreamEvent> events;
    StreamState state = StreamState::open;
    while (state == StreamState::open) {
        if (const auto why = transaction.departed()) {
            bytes += framed(sse_event(source->cut_off(last_event_)));
            if (why == DisconnectReason::shut_down) co_await write(bytes);
            co_return false;
        }
        state = source->take(events);
        std::string data;
        for (const StreamEvent& event : events) data += sse_event(event);
        if (!data.empty()) bytes += framed(data);
        if (state == StreamState::complete && is_chunked_) bytes += kLastChunk;
        bool is_written = true;
        if (!bytes.empty()) is_written = co_await write(bytes);
        if (!is_written) co_return false;
        bytes.clear();
        events.clear();
        if (state != StreamState::open) break;
        const bool has_events = co_await transaction.wait_for(context_.limits.keep_alive_interval);
        if (!has_events) bytes = framed(kSseKeepAlive);
    }
    co_return state == StreamState::complete;
}

asio::awaitable<void> Connection::speak_websocket() {
    WebSocketSession session(
        reader_.take(), context_.limits, context_.counts,
        [this](std::shared_ptr<HttpTransaction> transaction) {
            context_.callbacks.handle(std::move(transaction), endpoint_);
        },
        [this] { context_.callbacks.timed_out(TimeoutKind::write); });
    disarm();
    cut_websocket_ = [&session] {
        if (session.cut) session.cut();
    };
    co_await transport_->run(session);
    cut_websocket_ = nullptr;
}

bool Connection::peer_has_left() {
    pollfd socket{transport_->socket().native_handle(), POLLRDHUP, 0};
    return ::poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// A client that closes, or only its own direction, no longer wants the response.
asio::awaitable<void> Connection::watch_peer(std::shared_ptr<PendingTransaction> transaction) {
    const auto self = shared_from_this();
    asio::steady_timer pause(context_.io);
    boost::system::error_code stopped;
    while (!transaction->is_settled()) {
        co_await transport_->socket().async_wait(Socket::wait_read,
                                                 asio::redirect_error(use_awaitable, stopped));
        if (stopped || transaction->is_settled()) co_return;
        if (peer_has_left()) {
            transaction->disconnected(DisconnectReason::closed);
            co_return;
        }
        pause.expires_after(kPeerPause);
        co_await pause.async_wait(asio::redirect_error(use_awaitable, stopped));
    }
}

}  // namespace nvllm::server
