// The protocols of sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3).
#include "lib/system/service_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/system/unix_socket.h"

namespace nvllm {
namespace {

constexpr int kFirstPassedDescriptor = 3;
constexpr int kMaxPassedDescriptors = 1024;

// Its value, which it has no longer afterwards; empty when it is not set.
std::string take_variable(const char* name) {
    const char* value = std::getenv(name);
    std::string text = value == nullptr ? "" : value;
    ::unsetenv(name);
    return text;
}

int64_t number_in(const std::string& text, const char* variable) {
    const auto number = parse_integer<int64_t>(text);
    if (number && *number >= 0) return *number;
    throw Error(ErrorKind::bad_config, fmt::format("{}: '{}' is no number", variable, text));
}

// Variables are inherited by every process, but meant for one.
bool is_this_process(const std::string& id) { return id == std::to_string(::getpid()); }

std::optional<std::chrono::microseconds> watchdog_interval() {
    const std::string process = take_variable("WATCHDOG_PID");
    const std::string limit = take_variable("WATCHDOG_USEC");
    if (limit.empty() || (!process.empty() && !is_this_process(process))) return std::nullopt;
    return std::chrono::microseconds(std::max<int64_t>(number_in(limit, "WATCHDOG_USEC") / 2, 1));
}

// "api:metrics"
std::vector<std::string> split_names(const std::string& text) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(':', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

void check_listens(int descriptor) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    const int result = ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    if (result == 0 && listens != 0) return;
    throw Error(ErrorKind::bad_config,
                fmt::format("LISTEN_FDS: descriptor {} is no socket that listens: {}; a socket "
                            "unit needs ListenStream= and Accept=no",
                            descriptor, result == 0 ? "not listening" : std::strerror(errno)));
}

std::vector<PassedSocket> passed_sockets() {
    const std::string process = take_variable("LISTEN_PID");
    const std::string count = take_variable("LISTEN_FDS");
    const std::vector<std::string> names = split_names(take_variable("LISTEN_FDNAMES"));
    if (count.empty() || !is_this_process(process)) return {};
    const int64_t number = number_in(count, "LISTEN_FDS");
    if (number > kMaxPassedDescriptors) {
        throw Error(ErrorKind::bad_config, fmt::format("LISTEN_FDS: {} are too many", number));
    }
    std::vector<PassedSocket> sockets;
    for (int i = 0; i < static_cast<int>(number); ++i) {
        const int descriptor = kFirstPassedDescriptor + i;
        check_listens(descriptor);
        ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        const auto index = static_cast<size_t>(i);
        sockets.push_back({descriptor, index < names.size() ? names[index] : ""});
    }
    return sockets;
}

std::string one_line(std::string_view text) {
    std::string line(text);
    std::ranges::replace(line, '\n', ' ');
    return line;
}

int64_t monotonic_us() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
    ServiceManager manager;
    manager.address_ = take_variable("NOTIFY_SOCKET");
    manager.keep_alive_interval_ = watchdog_interval();
    manager.sockets_ = passed_sockets();
    const std::string& address = manager.address_;
    const bool is_known = address.empty() || address[0] == '/' || address[0] == '@';
    if (!is_known || address.size() >= sizeof(sockaddr_un::sun_path)) {
        throw Error(ErrorKind::bad_config,
                    fmt::format("NOTIFY_SOCKET: '{}' is no path and no @name of at most {} bytes",
                                address, sizeof(sockaddr_un::sun_path) - 1));
    }
    return manager;
}

void ServiceManager::ready(std::string_view status) const {
    notify("READY=1\nSTATUS=" + one_line(status));
}

void ServiceManager::status(std::string_view status) const { notify("STATUS=" + one_line(status)); }

void ServiceManager::reloading() const {
    notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
}

void ServiceManager::stopping(std::string_view status, std::chrono::milliseconds longest) const {
    notify(fmt::format("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\nSTATUS={}",
                       std::chrono::microseconds(longest).count(), one_line(status)));
}

void ServiceManager::keep_alive() const { notify("WATCHDOG=1"); }

void ServiceManager::notify(const std::string& message) const {
    if (address_.empty()) return;
    const OwnedDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, address_.data(), address_.size());
    if (address_[0] == '@') address.sun_path[0] = '\0';
    // An abstract name is as long as it is said to be: zeros behind it would belong to it.
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    ::sendto(socket.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace nvllm
