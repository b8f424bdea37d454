// Ends what the engine does on this thread when it takes too long, too much memory or too much of
// the stack: xgrammar asks now and then (scripts/xgrammar.patch).
#pragma once

#include <cstddef>
#include <string>

#include "lib/grammar/thread_time.h"

namespace nvllm {

// Thrown through the engine. No std::exception, which it catches in places.
struct EngineLimit {
    std::string reason;  // "it takes more than 2 s"
};

// While it lives; one a thread.
class EngineWatch {
  public:
    // `limit`, in seconds, is what messages name.
    EngineWatch(ThreadTime end, double limit, size_t mask_bytes);
    ~EngineWatch();
    EngineWatch(const EngineWatch&) = delete;
    EngineWatch& operator=(const EngineWatch&) = delete;

  private:
    static void check(void* data, unsigned long bytes);

    ThreadTime end_;
    double limit_;
    size_t allowed_bytes_;
    size_t bytes_ = 0;
};

}  // namespace nvllm
