// The service manager that started this program (systemd), when there is one: it is told how the
// program fares, and hands over sockets that it listens at.
//
// Messages may be sent from any thread, and never block: one that cannot be delivered is lost.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// A socket that listens already; its taker closes it.
struct PassedSocket {
    int descriptor = -1;
    std::string name;  // FileDescriptorName= of its unit; empty: none was given
};

class ServiceManager {
  public:
    // None: no message is sent.
    ServiceManager() = default;
    // The one that the environment names (NOTIFY_SOCKET, WATCHDOG_USEC, LISTEN_FDS and what belongs
    // to them). The variables are removed, so that programs started from here do not take
    // themselves for the service: call it before there are other threads. Throws bad_config for
    // variables that make no sense, and for a passed descriptor that is no listening socket.
    static ServiceManager from_environment();

    const std::vector<PassedSocket>& sockets() const { return sockets_; }

    // It has started, or is done with reloading. `status`: a line for people.
    void ready(std::string_view status) const;
    void status(std::string_view status) const;
    // A reload begins; ready() ends it.
    void reloading() const;
    // It ends, and may take so long: the manager's own limit on that is lifted as far.
    void stopping(std::string_view status, std::chrono::milliseconds longest) const;
    // To be sent at this interval, half of what the manager waits for; empty: it is not waited for.
    std::optional<std::chrono::microseconds> keep_alive_interval() const {
        return keep_alive_interval_;
    }
    void keep_alive() const;

  private:
    void notify(const std::string& message) const;

    std::string address_;  // a path, or "@name" of an abstract socket; empty: there is no manager
    std::optional<std::chrono::microseconds> keep_alive_interval_;
    std::vector<PassedSocket> sockets_;
};

}  // namespace nvllm
