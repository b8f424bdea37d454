// A few threads that take tasks from a bounded queue: work that must not hold up an event loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "lib/base/queue.h"

namespace nvllm {

class TaskPool {
  public:
    // Throws unavailable when the system allows fewer threads. REQUIRES: at least one thread and
    // space for one task.
    TaskPool(int32_t num_threads, size_t max_waiting);
    // Drops tasks that have not begun and waits for the running ones.
    ~TaskPool();
    TaskPool(const TaskPool&) = delete;
    TaskPool& operator=(const TaskPool&) = delete;

    // From any thread, at once: false when too many tasks wait. Tasks begin in the order they came;
    // what one throws ends the process, as with any thread.
    bool try_run(std::function<void()> task);
    size_t num_waiting() const { return tasks_.size(); }

  private:
    void work();
    void end();

    BoundedQueue<std::function<void()>> tasks_;
    std::vector<std::thread> threads_;
    std::atomic<bool> is_shutting_down_ = false;
};

}  // namespace nvllm
