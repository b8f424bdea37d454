// What a service manager gets to hear, byte for byte, and what is taken from it.
#include "lib/system/service_manager.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "kernels/error.h"
#include "lib/system/unix_socket.h"
#include "tests/error_of.h"
#include "tests/lib/base/manager_listener.h"

using namespace nvllm;

namespace {

void set_process(const char* variable) {
    ::setenv(variable, std::to_string(::getpid()).c_str(), 1);
}

std::string fault() {
    return test::error_of(ErrorKind::bad_config, [] { ServiceManager::from_environment(); });
}

}  // namespace

TEST_CASE("a manager that was named is told, and its variables are gone") {
    test::ManagerListener listener;
    ::setenv("WATCHDOG_USEC", "3000000", 1);
    set_process("WATCHDOG_PID");
    const ServiceManager manager = ServiceManager::from_environment();
    for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
        CHECK(std::getenv(variable) == nullptr);
    }
    CHECK(manager.keep_alive_interval() == std::chrono::microseconds(1'500'000));
    manager.ready("listening\nhere");
    CHECK(listener.heard() == "READY=1\nSTATUS=listening here");
    manager.status("loading");
    CHECK(listener.heard() == "STATUS=loading");
    manager.keep_alive();
    CHECK(listener.heard() == "WATCHDOG=1");
    manager.stopping("ending", std::chrono::milliseconds(40'000));
    CHECK(listener.heard() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\nSTATUS=ending");
    manager.reloading();
    const std::string reloading = listener.heard();
    CHECK(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    CHECK(std::stoll(reloading.substr(reloading.rfind('=') + 1)) > 0);
    CHECK(listener.heard().empty());
}

TEST_CASE("without a manager, or with another process's variables, nothing happens") {
    ::setenv("WATCHDOG_USEC", "3000000", 1);
    ::setenv("WATCHDOG_PID", "1", 1);
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_PID", "1", 1);
    const ServiceManager manager = ServiceManager::from_environment();
    manager.ready("nobody hears it");
    CHECK_FALSE(manager.keep_alive_interval());
    CHECK(manager.sockets().empty());
    CHECK(std::getenv("LISTEN_FDS") == nullptr);
}

TEST_CASE("variables that make no sense are refused by name") {
    ::setenv("WATCHDOG_USEC", "soon", 1);
    CHECK(fault() == "WATCHDOG_USEC: 'soon' is no number");
    ::setenv("NOTIFY_SOCKET", "relative", 1);
    CHECK(fault().find("NOTIFY_SOCKET: 'relative' is no path") == 0);
    set_process("LISTEN_PID");
    ::setenv("LISTEN_FDS", "-1", 1);
    CHECK(fault() == "LISTEN_FDS: '-1' is no number");
}

TEST_CASE("sockets that listen are passed by number and name; anything else is refused") {
    // Descriptor 3 may be in use by whoever started the tests.
    const OwnedDescriptor kept(::fcntl(3, F_DUPFD_CLOEXEC, 10));
    if (!kept) REQUIRE(::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);  // takes the number 3
    const OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(::listen(socket.get(), 1) == 0);
    REQUIRE(::dup2(socket.get(), 3) == 3);
    set_process("LISTEN_PID");
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_FDNAMES", "metrics", 1);
    const ServiceManager manager = ServiceManager::from_environment();
    REQUIRE(manager.sockets().size() == 1);
    CHECK(manager.sockets()[0].descriptor == 3);
    CHECK(manager.sockets()[0].name == "metrics");
    CHECK((::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0);

    const OwnedDescriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(::dup2(file.get(), 3) == 3);
    set_process("LISTEN_PID");
    ::setenv("LISTEN_FDS", "1", 1);
    CHECK(fault().find("LISTEN_FDS: descriptor 3 is no socket that listens") == 0);
    if (kept)
        ::dup2(kept.get(), 3);
    else
        ::close(3);
}
