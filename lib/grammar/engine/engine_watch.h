// Ends what the engine does on this thread when it takes too long, too much memory or too much of
// the stack: xgrammar asks now and then (scripts/xgrammar.patch).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace nvllm {

// Thrown through the engine. No std::exception, which it catches in places.
struct EngineLimit {
    std::string reason;  // "it takes more than 2 s"
};

// While it lives; one a thread.
class EngineWatch {
  public:
    // `seconds`: those that are left of `limit`, which messages name.
    EngineWatch(double seconds, double limit, size_t mask_bytes);
    ~EngineWatch();
    EngineWatch(const EngineWatch&) = delete;
    EngineWatch& operator=(const EngineWatch&) = delete;

  private:
    static void check(void* data, unsigned long bytes);

    std::chrono::steady_clock::time_point end_;
    double limit_;
    size_t allowed_bytes_;
    size_t bytes_ = 0;
};

}  // namespace nvllm
