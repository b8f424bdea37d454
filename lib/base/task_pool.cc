// The threads of a task pool.
#include "lib/base/task_pool.h"

#include "kernels/error.h"
#include "kernels/host/start_thread.h"

namespace nvllm {

TaskPool::TaskPool(int32_t num_threads, size_t max_waiting) : tasks_(max_waiting) {
    NVLLM_CHECK(num_threads > 0, "a task pool needs a thread");
    threads_.reserve(static_cast<size_t>(num_threads));
    try {
        for (int32_t i = 0; i < num_threads; ++i) {
            threads_.push_back(start_thread([this] { work(); }));
        }
    } catch (...) {
        end();
        throw;
    }
}

TaskPool::~TaskPool() { end(); }

void TaskPool::end() {
    is_shutting_down_ = true;
    tasks_.close();
    for (std::thread& thread : threads_) thread.join();
}

bool TaskPool::try_run(std::function<void()> task) { return tasks_.try_push(std::move(task)); }

void TaskPool::work() {
    while (auto task = tasks_.pop()) {
        if (!is_shutting_down_) (*task)();
    }
}

}  // namespace nvllm
