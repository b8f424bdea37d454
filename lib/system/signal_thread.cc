// signalfd for the signals, eventfd for the end.
#include "lib/system/signal_thread.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"

namespace nvllm {
namespace {

sigset_t set_of(const std::vector<int>& signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    return set;
}

}  // namespace

SignalThread::SignalThread(std::vector<int> signals, std::function<void(int)> handle)
    : signals_(std::move(signals)) {
    const sigset_t set = set_of(signals_);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal_descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    end_descriptor_ = ::eventfd(0, EFD_CLOEXEC);
    if (signal_descriptor_ < 0 || end_descriptor_ < 0) {
        throw Error(ErrorKind::unavailable, "signals cannot be watched: out of file descriptors");
    }
    thread_ = start_thread([this, handle = std::move(handle)] { run(handle); });
}

SignalThread::~SignalThread() {
    const uint64_t one = 1;
    if (::write(end_descriptor_, &one, sizeof(one)) > 0) thread_.join();
    ::close(signal_descriptor_);
    ::close(end_descriptor_);
    const sigset_t set = set_of(signals_);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SignalThread::run(const std::function<void(int)>& handle) {
    std::array<pollfd, 2> watched{{{signal_descriptor_, POLLIN, 0}, {end_descriptor_, POLLIN, 0}}};
    while (::poll(watched.data(), watched.size(), -1) >= 0 || errno == EINTR) {
        if (watched[1].revents != 0) return;
        signalfd_siginfo info{};
        while (::read(signal_descriptor_, &info, sizeof(info)) == sizeof(info)) {
            handle(static_cast<int>(info.ssi_signo));
        }
    }
}

}  // namespace nvllm
