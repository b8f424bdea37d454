// Listeners, the I/O thread and the list of active connections.
#include "lib/server/http/http_server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <unordered_map>

#include "lib/base/log.h"
#include "lib/server/http/connection.h"
#include "lib/system/unix_socket.h"

namespace nvllm::server {
namespace {

using asio::use_awaitable;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

// Without descriptors or memory, or with all connections taken: how long no client is accepted.
constexpr std::chrono::milliseconds kAcceptPause{250};
// Connections above the limit, on which probes are answered and others are told that there are too
// many; beyond these they wait unaccepted.
constexpr int64_t kReservedConnections = 64;
constexpr int kBacklog = 4096;
constexpr int kMaxUnsentBytes = 64 * 1024;

Error cannot_listen(const Endpoint& endpoint, const std::string& why) {
    return Error(ErrorKind::unavailable,
                 fmt::format("cannot listen at {}:{}: {}; choose another --host or --port",
                             endpoint.host, endpoint.port, why));
}

// A TCP listener as one of any protocol.
Acceptor listen_at_address(asio::io_context& io, const Endpoint& endpoint, uint16_t& port) {
    boost::system::error_code fault;
    asio::ip::tcp::resolver resolver(io);
    const auto found = resolver.resolve(endpoint.host, std::to_string(endpoint.port),
                                        asio::ip::tcp::resolver::passive, fault);
    if (fault || found.empty()) {
        throw Error(ErrorKind::usage, fmt::format("--host: '{}' is no address of this machine: {}",
                                                  endpoint.host, fault.message()));
    }
    const asio::ip::tcp::endpoint address = found.begin()->endpoint();
    asio::ip::tcp::acceptor acceptor(io);
    acceptor.open(address.protocol(), fault);
    if (!fault) acceptor.set_option(asio::socket_base::reuse_address(true), fault);
    if (!fault) acceptor.bind(address, fault);
    if (!fault) acceptor.listen(kBacklog, fault);
    if (fault) throw cannot_listen(endpoint, fault.message());
    port = acceptor.local_endpoint().port();
    const int descriptor = acceptor.release();
    return Acceptor(io, asio::generic::stream_protocol(address.protocol()), descriptor);
}

Acceptor wrap(asio::io_context& io, int descriptor) {
    int family = AF_UNIX;
    socklen_t size = sizeof(family);
    ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size);
    return Acceptor(io, asio::generic::stream_protocol(family, 0), descriptor);
}

// What the system holds of a response that its client does not take is bounded; the rest waits here
// and is seen to wait.
void set_tcp_options(Socket& socket) {
    boost::system::error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsentBytes,
                 sizeof(kMaxUnsentBytes));
}

ApiError too_many_connections() {
    return {.status = 503,
            .message = "the server has as many connections as it takes",
            .code = "too_many_connections",
            .retry_after_s = 1};
}

bool out_of_descriptors(const boost::system::error_code& fault) {
    return fault == boost::system::errc::too_many_files_open ||
           fault == boost::system::errc::too_many_files_open_in_system ||
           fault == boost::system::errc::not_enough_memory ||
           fault == boost::system::errc::no_buffer_space;
}

}  // namespace

class HttpServer::Core {
  public:
    Core(const ConnectionLimits& given_limits, Callbacks given_callbacks)
        : limits(given_limits),
          callbacks(std::move(given_callbacks)),
          context{io, limits, callbacks, counts},
          work(io.get_executor()),
          patience(io) {}

    uint16_t listen(const Endpoint& endpoint) {
        uint16_t port = endpoint.port;
        auto listener = std::make_shared<Listener>(endpoint, open(endpoint, port));
        listener->endpoint.port = port;
        listeners.push_back(listener);
        asio::co_spawn(io, accept(listener), asio::detached);
        return port;
    }

    void close_listeners() {
        context.is_closing = true;
        for (const auto& listener : listeners) close(*listener);
        for (const auto& connection : active()) connection->close_if_idle();
    }

    void close_passed_listeners() {
        for (const auto& listener : listeners) {
            if (listener->endpoint.descriptor) close(*listener);
        }
    }

    void shut_down(const std::string& last_event, std::chrono::milliseconds limit) {
        close_listeners();
        for (const auto& connection : active()) connection->cut(last_event);
        work.reset();
        patience.expires_after(limit);
        patience.async_wait([this](const boost::system::error_code& cancelled) {
            if (!cancelled) io.stop();
        });
        end_when_empty();
    }

    const ConnectionLimits limits;
    const Callbacks callbacks;
    ConnectionCounts counts;
    // Behind what the coroutines use, which end with it at the latest.
    asio::io_context io{1};
    ConnectionContext context;
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
    asio::steady_timer patience;
    std::optional<asio::ssl::context> tls;

  private:
    struct Listener {
        Listener(Endpoint given, Acceptor opened)
            : endpoint(std::move(given)), acceptor(std::move(opened)) {}
        Endpoint endpoint;
        Acceptor acceptor;
    };

    Acceptor open(const Endpoint& endpoint, uint16_t& port) {
        if (endpoint.descriptor) return wrap(io, *endpoint.descriptor);
        if (endpoint.unix_socket.empty()) return listen_at_address(io, endpoint, port);
        OwnedDescriptor socket = listen_on_unix_socket(endpoint.unix_socket);
        if (endpoint.role != EndpointRole::admin) {
            using std::filesystem::perms;
            std::filesystem::permissions(
                endpoint.unix_socket,
                perms::owner_read | perms::owner_write | perms::group_read | perms::group_write);
        }
        return wrap(io, socket.release());
    }

    static void close(Listener& listener) {
        if (!listener.acceptor.is_open()) return;
        boost::system::error_code ignored;
        listener.acceptor.close(ignored);
        std::error_code absent;
        if (!listener.endpoint.descriptor && !listener.endpoint.unix_socket.empty()) {
            std::filesystem::remove(listener.endpoint.unix_socket, absent);
        }
    }

    // Nothing that a connection lacks may end it: no client would be accepted any more.
    asio::awaitable<void> accept(std::shared_ptr<Listener> listener) {
        asio::steady_timer pause(io);
        while (listener->acceptor.is_open()) {
            boost::system::error_code fault;
            try {
                Socket socket = co_await listener->acceptor.async_accept(
                    io, asio::redirect_error(use_awaitable, fault));
                if (!fault) admit(std::move(socket), *listener);
                const bool is_full = counts.open >= limits.max_connections + kReservedConnections ||
                                     !callbacks.has_memory();
                if (!is_full && !(fault && out_of_descriptors(fault))) continue;
                if (fault) note_accept_fault(fault.message());
                pause.expires_after(kAcceptPause);
                co_await pause.async_wait(asio::redirect_error(use_awaitable, fault));
            } catch (const std::bad_alloc&) {
                note_accept_fault("out of memory");
                std::erase_if(connections, [](const auto& each) { return each.second.expired(); });
            }
        }
    }

    void note_accept_fault(const std::string& why) {
        if (counts.accept_faults++ % 4 == 0) {  // about once a second
            log_warning(fmt::format("no connection can be accepted for now: {}", why));
        }
    }

    void admit(Socket socket, const Listener& listener) {
        ++counts.accepted;
        if (listener.endpoint.unix_socket.empty()) set_tcp_options(socket);
        auto transport = listener.endpoint.has_tls ? tls_transport(std::move(socket), *tls)
                                                   : plain_transport(std::move(socket));
        auto connection =
            std::make_shared<Connection>(context, std::move(transport), listener.endpoint);
        connections[connection.get()] = connection;
        const bool has_permit = counts.open < limits.max_connections;
        if (!has_permit) ++counts.refused;
        asio::co_spawn(io, live(connection, has_permit), asio::detached);
    }

    asio::awaitable<void> live(std::shared_ptr<Connection> connection, bool has_permit) {
        if (has_permit) {
            co_await connection->run();
        } else {
            const ApiError full = too_many_connections();
            co_await connection->turn_away(full);
        }
        connections.erase(connection.get());
        end_when_empty();
    }

    // Nothing keeps the loop when it was shut down and the last connection is gone.
    void end_when_empty() {
        if (!work && connections.empty()) patience.cancel();
    }

    std::vector<std::shared_ptr<Connection>> active() const {
        std::vector<std::shared_ptr<Connection>> all;
        for (const auto& [address, weak] : connections) {
            if (auto connection = weak.lock()) all.push_back(std::move(connection));
        }
        return all;
    }

    std::vector<std::shared_ptr<Listener>> listeners;
    std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
};

HttpServer::HttpServer(const ConnectionLimits& limits, Callbacks callbacks)
    : core_(std::make_unique<Core>(limits, std::move(callbacks))) {}
HttpServer::~HttpServer() = default;

void HttpServer::use_tls(const TlsFiles& files) {
    core_->tls.emplace(asio::ssl::context::tls_server);
    core_->tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                            asio::ssl::context::no_tlsv1_1);
    boost::system::error_code fault;
    core_->tls->use_certificate_chain_file(files.certificate.string(), fault);
    if (fault) {
        throw Error(
            ErrorKind::bad_config,
            fmt::format("--ssl-certfile: {}: not a certificate in PEM form that can be read",
                        files.certificate.string()));
    }
    core_->tls->use_private_key_file(files.key.string(), asio::ssl::context::pem, fault);
    if (fault) {
        throw Error(ErrorKind::bad_config,
                    fmt::format("--ssl-keyfile: {}: not the certificate's key in PEM form",
                                files.key.string()));
    }
}

uint16_t HttpServer::listen(const Endpoint& endpoint) { return core_->listen(endpoint); }

// What had no memory is lost, and the rest goes on.
void HttpServer::run() {
    bool is_over = false;
    while (!is_over) {
        try {
            core_->io.run();
            is_over = true;
        } catch (const std::bad_alloc&) {
            log_error("out of memory on the thread of the connections");
        }
    }
}

void HttpServer::post(std::function<void()> task) { asio::post(core_->io, std::move(task)); }

void HttpServer::post_after(std::chrono::milliseconds delay, std::function<void()> task) {
    auto timer = std::make_shared<asio::steady_timer>(core_->io, delay);
    timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& cancelled) {
        if (!cancelled) task();
    });
}

void HttpServer::close_listeners() {
    post([this] { core_->close_listeners(); });
}

void HttpServer::close_passed_listeners() {
    post([this] { core_->close_passed_listeners(); });
}

void HttpServer::shut_down(const std::string& last_event, std::chrono::milliseconds patience) {
    post([this, last_event, patience] { core_->shut_down(last_event, patience); });
}

const ConnectionCounts& HttpServer::counts() const { return core_->counts; }

}  // namespace nvllm::server
