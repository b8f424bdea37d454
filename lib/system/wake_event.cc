// An eventfd and poll().
#include "lib/system/wake_event.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "kernels/error.h"

namespace nvllm {

WakeEvent::WakeEvent() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_) return;
    throw Error(ErrorKind::io, std::string("cannot make an eventfd: ") + std::strerror(errno));
}

void WakeEvent::notify() {
    const uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof(one));
}

void WakeEvent::wait(std::optional<int> other, std::optional<std::chrono::milliseconds> limit) {
    std::array<pollfd, 2> watched = {pollfd{event_.get(), POLLIN, 0},
                                     pollfd{other.value_or(-1), POLLIN, 0}};
    // A signal ends the wait too early, which every caller has to allow for anyway.
    ::poll(watched.data(), watched.size(), limit ? static_cast<int>(limit->count()) : -1);
    uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof(count));
}

}  // namespace nvllm
