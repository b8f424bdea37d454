// A fixed set of worker threads that run one parallel region at a time.
//
// Threads spin briefly for one another and then sleep, so that an idle process uses no CPU, a busy
// one pays about a microsecond a region, and a thread that lost its core in the midst of a range
// gets the core of one that waits for it. The calling thread takes part. One pool per engine;
// parallel_for may be called from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "kernels/host/cpu_placement.h"

namespace nvllm {

// A reference to a callable, without allocation: void(begin, end, thread_index).
class RangeFunction {
  public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFunction>)
        RangeFunction(F&& function)  // NOLINT: meant to be implicit
        : object_(const_cast<void*>(static_cast<const void*>(&function))),
          call_([](void* object, int64_t begin, int64_t end, int thread) {
              (*static_cast<std::remove_reference_t<F>*>(object))(begin, end, thread);
          }) {}
    void operator()(int64_t begin, int64_t end, int thread) const {
        call_(object_, begin, end, thread);
    }

  private:
    void* object_;
    void (*call_)(void*, int64_t, int64_t, int);
};

class ThreadPool {
  public:
    // `num_threads` counts the calling thread; 1 starts no thread at all. They run wherever the
    // process may. Throws unavailable when the system allows fewer (start_thread.h).
    explicit ThreadPool(int num_threads);
    // As many as the placement has, each bound as it says: all but the first here. Throws the same.
    explicit ThreadPool(const CpuPlacement& placement);
    // Counts threads and starts none (kernels/host/dry_run.h). To run anything by it is a mistake.
    static ThreadPool of_dry_run(int num_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int num_threads() const;

    // Binds the calling thread as the placement says of the first. What the system refused, as
    // bind_this_thread() has it; the same then holds for the others.
    std::string bind_caller() const;

    // Runs function(begin, end, thread_index) over [0, count) cut into ranges of `grain` items.
    // Every range but the last has exactly `grain` items, whatever the number of threads. Thread i
    // of n takes the ranges of the i-th nth, one after another, then helps the others with theirs:
    // of regions over the same rows each thread finds in its core's caches what it wrote before.
    // Returns when all are done. The first exception a range throws is rethrown here.
    void parallel_for(int64_t count, int64_t grain, RangeFunction function);

  private:
    struct State;
    explicit ThreadPool(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace nvllm
