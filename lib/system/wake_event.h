// Lets one thread sleep until others notify it, or until a descriptor has something to read.
#pragma once

#include <chrono>
#include <optional>

#include "lib/system/unix_socket.h"

namespace nvllm {

class WakeEvent {
  public:
    // Throws io when the system has none left.
    WakeEvent();

    // Ends the present wait(), or the next one. Any thread.
    void notify();
    // Returns when notify() was called since the last wait, `other` can be read or is at its end,
    // or the time has passed. One thread.
    void wait(std::optional<int> other, std::optional<std::chrono::milliseconds> limit);

  private:
    OwnedDescriptor event_;
};

}  // namespace nvllm
