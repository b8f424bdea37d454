// Linux sockets with checks of path, folder and peer.
#include "lib/system/unix_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr int kBacklog = 8;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
    throw Error(ErrorKind::cannot_create, path.string() + ": " + what);
}

std::optional<sockaddr_un> address_of(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& text = path.native();
    if (text.empty() || text.size() >= sizeof(address.sun_path)) return std::nullopt;
    std::memcpy(address.sun_path, text.data(), text.size());
    return address;
}

sockaddr_un checked_address(const std::filesystem::path& path) {
    const auto address = address_of(path);
    if (!address) {
        fail(path,
             fmt::format("a socket's path has 1 to {} bytes", sizeof(sockaddr_un::sun_path) - 1));
    }
    return *address;
}

OwnedDescriptor new_socket(int flags) {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (!socket) {
        throw Error(ErrorKind::io, std::string("cannot make a socket: ") + std::strerror(errno));
    }
    return socket;
}

int connect_to(const OwnedDescriptor& socket, const sockaddr_un& address) {
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    return ::connect(socket.get(), generic, sizeof(address)) == 0 ? 0 : errno;
}

// A user who may rename files in the folder could put another socket there.
void check_folder(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0) {
        fail(path, fmt::format("its folder: {}", std::strerror(errno)));
    }
    if (!S_ISDIR(info.st_mode)) fail(path, "its parent is not a folder");
    if (info.st_uid != ::geteuid() && info.st_uid != 0) fail(path, "its folder is somebody else's");
    const bool others_write = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (others_write && (info.st_mode & S_ISVTX) == 0) {
        fail(path,
             "others can write to its folder; use one of your own, such as "
             "$XDG_RUNTIME_DIR");
    }
}

// Removes only a socket of this user that no process listens on.
void remove_stale(const std::filesystem::path& path, const sockaddr_un& address) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno == ENOENT) return;
        fail(path, std::strerror(errno));
    }
    if (!S_ISSOCK(info.st_mode)) fail(path, "exists and is no socket; it is left as it is");
    if (info.st_uid != ::geteuid()) fail(path, "is somebody else's socket");
    const int error = connect_to(new_socket(SOCK_NONBLOCK), address);
    if (error == 0 || error == EAGAIN) fail(path, "another process listens on it");
    if (error != ECONNREFUSED) fail(path, std::strerror(error));
    if (::unlink(path.c_str()) != 0) fail(path, std::strerror(errno));
}

}  // namespace

OwnedDescriptor listen_on_unix_socket(const std::filesystem::path& path) {
    const sockaddr_un address = checked_address(path);
    check_folder(path);
    remove_stale(path, address);
    OwnedDescriptor socket = new_socket(SOCK_NONBLOCK);
    // Set before bind(), which gives the file the socket's own mode: there is no moment at which
    // others could connect.
    if (::fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0) fail(path, std::strerror(errno));
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(socket.get(), generic, sizeof(address)) != 0) fail(path, std::strerror(errno));
    if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket.get(), kBacklog) != 0) {
        const int error = errno;
        ::unlink(path.c_str());
        fail(path, std::strerror(error));
    }
    return socket;
}

OwnedDescriptor accept_own_connection(int listener) {
    OwnedDescriptor peer(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!peer) return peer;
    ucred who{};
    socklen_t size = sizeof(who);
    const bool known = ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
    if (!known || (who.uid != ::geteuid() && who.uid != 0)) peer.reset();
    return peer;
}

OwnedDescriptor connect_to_unix_socket(const std::filesystem::path& path,
                                       std::optional<std::chrono::milliseconds> timeout) {
    const sockaddr_un address = checked_address(path);
    OwnedDescriptor socket = new_socket(0);
    if (timeout) {
        const auto limit_ms = std::max<int64_t>(timeout->count(), 1);  // 0 would be no limit
        const timeval limit{limit_ms / 1000, limit_ms % 1000 * 1000};
        ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    }
    const int error = connect_to(socket, address);
    if (error == 0) return socket;
    if (error == ENOENT) throw Error(ErrorKind::not_found, path.string() + ": no such socket");
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: nobody answers there: {}", path.string(), std::strerror(error)));
}

}  // namespace nvllm
