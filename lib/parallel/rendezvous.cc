// Non-blocking sockets on the side that waits for many, blocking ones on the other.
#include "lib/parallel/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "kernels/error.h"
#include "lib/base/log.h"
#include "lib/base/option_values.h"
#include "lib/parallel/rank_handshake.h"

namespace nvllm {
namespace {

// Callers that have not said who they are, at one time, and how long each may take.
constexpr size_t kMaxCallers = 64;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kBetweenAttempts{100};

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorKind::unavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

struct FreeAddresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const RankAddress& address, int flags) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = flags;
    addrinfo* list = nullptr;
    const std::string port = std::to_string(address.port);
    const int status = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                     port.c_str(), &wanted, &list);
    if (status == 0) return Addresses(list);
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: {}", format_rank_address(address), ::gai_strerror(status)));
}

uint16_t port_of(int socket) {
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
    return bound.ss_family == AF_INET6
               ? ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port)
               : ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

void set_option(int socket, int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));
}

// Empty: none of the addresses answers.
OwnedDescriptor try_to_connect(const RankAddress& address) {
    const Addresses list = look_up(address, 0);
    for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
        OwnedDescriptor socket(
            ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
        if (socket && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) return socket;
    }
    return OwnedDescriptor();
}

}  // namespace

RankAddress parse_rank_address(const std::string& text) {
    const size_t colon = text.rfind(':');
    const std::string host = text.substr(0, colon);
    const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const auto port =
        colon == std::string::npos ? std::nullopt : parse_integer<uint16_t>(text.substr(colon + 1));
    if (!port || (!is_bracketed && host.find(':') != std::string::npos)) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: HOST:PORT is expected, such as node1:5000", text));
    }
    return {is_bracketed ? host.substr(1, host.size() - 2) : host, *port};
}

std::string format_rank_address(const RankAddress& address) {
    const bool has_colons = address.host.find(':') != std::string::npos;
    return has_colons ? fmt::format("[{}]:{}", address.host, address.port)
                      : fmt::format("{}:{}", address.host, address.port);
}

std::string make_rank_secret() {
    std::array<uint8_t, 32> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        fail("cannot make a secret");
    }
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

void notice_lost_peer(int socket) {
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10000);
    // Plans are small, and each is waited for.
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

RankListener::RankListener(const RankAddress& address, const std::string& secret)
    : address_(address), secret_(secret) {
    if (secret.empty() || secret.size() > kMaxSecretBytes) {
        throw Error(ErrorKind::usage,
                    fmt::format("a secret of ranks has 1 to {} bytes", kMaxSecretBytes));
    }
    const Addresses list = look_up(address, AI_PASSIVE);
    for (const addrinfo* one = list.get(); one != nullptr && !socket_; one = one->ai_next) {
        OwnedDescriptor socket(::socket(
            one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
        if (!socket) continue;
        set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
        if (::bind(socket.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
        if (::listen(socket.get(), SOMAXCONN) == 0) socket_ = std::move(socket);
    }
    if (!socket_) fail(fmt::format("cannot wait for ranks at {}", format_rank_address(address)));
    address_.port = port_of(socket_.get());
    poll_ = OwnedDescriptor(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{EPOLLIN, {}};
    ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, socket_.get(), &event);
}

void RankListener::expect(int num_ranks) {
    callers_.clear();
    ranks_.clear();
    ranks_.resize(static_cast<size_t>(num_ranks));
}

bool RankListener::take() {
    accept_callers();
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(callers_, [&](Caller& caller) { return !hear(caller) || now > caller.until; });
    return std::ranges::all_of(ranks_, [](const OwnedDescriptor& rank) { return bool(rank); });
}

void RankListener::accept_callers() {
    while (callers_.size() < kMaxCallers) {
        OwnedDescriptor socket(
            ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        epoll_event event{EPOLLIN, {}};
        ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, socket.get(), &event);
        callers_.push_back({std::move(socket), {}, std::chrono::steady_clock::now() + kPatience});
    }
}

bool RankListener::hear(Caller& caller) {
    RankHandshake handshake;
    HandshakeState state = read_handshake(caller.said, secret_, handshake);
    while (state == HandshakeState::incomplete) {
        std::array<uint8_t, 512> bytes{};
        const size_t rest = handshake_bytes(secret_) - caller.said.size();
        const ssize_t count =
            ::recv(caller.socket.get(), bytes.data(), std::min(rest, bytes.size()), 0);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        if (count == 0) return false;
        caller.said.insert(caller.said.end(), bytes.begin(), bytes.begin() + count);
        state = read_handshake(caller.said, secret_, handshake);
    }
    if (state == HandshakeState::wrong || handshake.rank >= ranks_.size() ||
        ranks_[handshake.rank]) {
        return false;
    }
    if (handshake.num_ranks != ranks_.size()) {
        log_warning(fmt::format("a rank of {} came, where {} are expected", handshake.num_ranks,
                                ranks_.size()));
        return false;
    }
    ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, caller.socket.get(), nullptr);
    ::fcntl(caller.socket.get(), F_SETFL, 0);
    notice_lost_peer(caller.socket.get());
    ranks_[handshake.rank] = std::move(caller.socket);
    return false;
}

std::vector<OwnedDescriptor> RankListener::ranks() { return std::move(ranks_); }

OwnedDescriptor join_as_rank(const RankAddress& address, const std::string& secret, int rank,
                             int num_ranks, std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    OwnedDescriptor socket = try_to_connect(address);
    while (!socket) {
        if (std::chrono::steady_clock::now() > until) {
            fail(fmt::format("{}: nobody waits for ranks there", format_rank_address(address)));
        }
        std::this_thread::sleep_for(kBetweenAttempts);
        socket = try_to_connect(address);
    }
    notice_lost_peer(socket.get());
    const std::vector<uint8_t> bytes =
        write_handshake({static_cast<uint32_t>(rank), static_cast<uint32_t>(num_ranks)}, secret);
    if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
        fail(fmt::format("{}: the connection ended", format_rank_address(address)));
    }
    return socket;
}

}  // namespace nvllm
