// One coroutine a request, on one thread.
#include "lib/measure/serving/http_load.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

#include "kernels/error.h"
#include "lib/cli/main_guard.h"
#include "lib/measure/serving/sse_reader.h"

namespace nvllm {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using Clock = std::chrono::steady_clock;
using Endpoints = asio::ip::tcp::resolver::results_type;

// How soon a stop signal is noticed.
constexpr std::chrono::milliseconds kSignalPause{50};
// Of an answer that is no stream, as much as a message may show.
constexpr size_t kMaxErrorText = 400;

std::chrono::nanoseconds nanoseconds_of(double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
}

Endpoints resolve(asio::io_context& io, const ServerAddress& server) {
    if (!server.unix_socket.empty()) {
        throw Error(ErrorKind::usage, server.text() + ": servers are measured over TCP");
    }
    boost::system::error_code error;
    asio::ip::tcp::resolver resolver(io);
    Endpoints endpoints = resolver.resolve(server.host, std::to_string(server.port), error);
    if (error) {
        throw Error(ErrorKind::unavailable, fmt::format("{}: {}", server.host, error.message()));
    }
    return endpoints;
}

void add_headers(http::fields& fields, const ServerAddress& server,
                 const std::vector<HttpHeader>& headers) {
    fields.set(http::field::host, fmt::format("{}:{}", server.host, server.port));
    fields.set(http::field::user_agent, "nvllm-bench");
    fields.set(http::field::connection, "close");
    for (const HttpHeader& header : headers) fields.set(header.name, header.value);
}

class HttpLoad {
  public:
    HttpLoad(std::span<const HttpRequest> requests, const HttpLoadOptions& options,
             HttpLoadListener& listener)
        : requests_(requests), options_(options), listener_(listener) {}

    double run() {
        endpoints_ = resolve(io_, options_.server);
        start_ = Clock::now();
        asio::co_spawn(io_, send_all(), asio::detached);
        asio::co_spawn(io_, watch_signals(), asio::detached);
        io_.run();
        return is_done_ ? end_s_ : now_s();
    }

  private:
    double now_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

    asio::awaitable<void> send_all() {
        for (size_t index = 0; index < requests_.size(); ++index) {
            send_timer_.expires_at(start_ + nanoseconds_of(requests_[index].send_at_s));
            co_await send_timer_.async_wait(use_awaitable);
            while (options_.max_concurrency && num_open_ >= *options_.max_concurrency) {
                slot_timer_.expires_at(Clock::time_point::max());
                boost::system::error_code woken;
                co_await slot_timer_.async_wait(asio::redirect_error(use_awaitable, woken));
            }
            ++num_open_;
            asio::co_spawn(io_, exchange(index), asio::detached);
        }
        is_sent_ = true;
        finish_if_done();
    }

    asio::awaitable<void> watch_signals() {
        for (;;) {
            signal_timer_.expires_after(kSignalPause);
            boost::system::error_code cancelled;
            co_await signal_timer_.async_wait(asio::redirect_error(use_awaitable, cancelled));
            if (options_.done) options_.done(num_ended_);
            if (stop_signal()) io_.stop();
            if (is_done_) co_return;
        }
    }

    asio::awaitable<void> exchange(size_t index) {
        std::optional<std::string> error;
        listener_.sent(index, now_s());
        try {
            co_await stream(index);
        } catch (const boost::system::system_error& failure) {
            error = failure.code().message();
        } catch (const std::exception& failure) {
            error = failure.what();
        }
        listener_.ended(index, now_s(), error);
        --num_open_;
        ++num_ended_;
        slot_timer_.cancel();
        finish_if_done();
    }

    void finish_if_done() {
        if (!is_sent_ || num_open_ > 0 || is_done_) return;
        is_done_ = true;
        end_s_ = now_s();
        signal_timer_.cancel();
    }

    asio::awaitable<void> stream(size_t index) {
        beast::tcp_stream connection(io_);
        connection.expires_after(nanoseconds_of(options_.timeout_s));
        co_await connection.async_connect(endpoints_, use_awaitable);
        connection.socket().set_option(asio::ip::tcp::no_delay(true));
        http::request<http::string_body> request(http::verb::post,
                                                 options_.server.base_path + options_.path, 11);
        add_headers(request, options_.server, options_.headers);
        request.set(http::field::content_type, "application/json");
        request.body() = requests_[index].body;
        request.prepare_payload();
        co_await http::async_write(connection, request, use_awaitable);

        beast::flat_buffer buffer;
        http::response_parser<http::buffer_body> parser;
        parser.body_limit(boost::none);
        co_await http::async_read_header(connection, buffer, parser, use_awaitable);
        co_await read_body(index, connection, buffer, parser);
    }

    asio::awaitable<void> read_body(size_t index, beast::tcp_stream& connection,
                                    beast::flat_buffer& buffer,
                                    http::response_parser<http::buffer_body>& parser) {
        const bool is_stream = parser.get().result() == http::status::ok;
        SseReader events;
        std::string error_text;
        std::array<char, 16384> piece{};
        while (!parser.is_done()) {
            parser.get().body().data = piece.data();
            parser.get().body().size = piece.size();
            boost::system::error_code error;
            co_await http::async_read_some(connection, buffer, parser,
                                           asio::redirect_error(use_awaitable, error));
            if (error && error != http::error::need_buffer) {
                throw boost::system::system_error(error);
            }
            const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
            if (is_stream) {
                const double time_s = now_s();
                events.feed(bytes,
                            [&](std::string_view data) { listener_.event(index, time_s, data); });
            } else if (error_text.size() < kMaxErrorText) {
                error_text += bytes.substr(0, kMaxErrorText - error_text.size());
            }
        }
        if (!is_stream) {
            throw Error(ErrorKind::unavailable,
                        fmt::format("status {}: {}", parser.get().result_int(), error_text));
        }
    }

    std::span<const HttpRequest> requests_;
    const HttpLoadOptions& options_;
    HttpLoadListener& listener_;
    asio::io_context io_{1};
    asio::steady_timer send_timer_{io_}, slot_timer_{io_}, signal_timer_{io_};
    Endpoints endpoints_;
    Clock::time_point start_;
    int32_t num_open_ = 0;
    size_t num_ended_ = 0;
    bool is_sent_ = false, is_done_ = false;
    double end_s_ = 0.0;
};

}  // namespace

double run_http_load(std::span<const HttpRequest> requests, const HttpLoadOptions& options,
                     HttpLoadListener& listener) {
    return HttpLoad(requests, options, listener).run();
}

}  // namespace nvllm
