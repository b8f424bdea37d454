// Signals as calls on a thread of their own, where anything may be done.
#pragma once

#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace nvllm {

// While it lives, these signals are blocked in the thread that made it and in all threads started
// from there later, and handed to `handle` one after the other. Make it before other threads.
class SignalThread {
  public:
    // Throws unavailable when the system has no descriptor or no thread for it.
    SignalThread(std::vector<int> signals, std::function<void(int signal)> handle);
    ~SignalThread();
    SignalThread(const SignalThread&) = delete;
    SignalThread& operator=(const SignalThread&) = delete;

  private:
    void run(const std::function<void(int)>& handle);

    std::vector<int> signals_;
    int signal_descriptor_ = -1;
    int end_descriptor_ = -1;
    std::thread thread_;
};

}  // namespace nvllm
