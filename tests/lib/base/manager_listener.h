// The service manager's end of the conversation, for tests of what is said to one.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/system/unix_socket.h"

namespace nvllm::test {

// At an abstract address, which the environment names as long as this lives.
class ManagerListener {
  public:
    ManagerListener() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name = "nvllm-notify-" + std::to_string(::getpid());
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
        ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
    }
    ~ManagerListener() { ::unsetenv("NOTIFY_SOCKET"); }

    // The next message; empty when there is none.
    std::string heard() {
        std::array<char, 4096> text{};
        const ssize_t count = ::recv(socket_.get(), text.data(), text.size(), 0);
        return count < 0 ? "" : std::string(text.data(), static_cast<size_t>(count));
    }

  private:
    OwnedDescriptor socket_;
};

}  // namespace nvllm::test
