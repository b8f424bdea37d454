// How the launches that follow are emulated: in which order threads run, when copies happen, what
// is watched.
//
// One set for the process. launch() reads it when it begins.
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu::emulation {

enum class Order {
    in_order,  // blocks and threads by number, each as far as it can go
    reverse,   // the same from the last one
    random,    // any thread that can run, chosen anew at every step
    greedy,    // warps in random order, each as far as it can go: one warp overtakes the others
};

// When the bytes of an asynchronous copy move. Hardware may do either.
enum class CopyTiming {
    late,   // in the wait: until then the destination is poisoned
    early,  // at issue
};

struct Settings {
    Order order = Order::in_order;
    uint64_t seed = 1;
    CopyTiming copies = CopyTiming::late;
    // Needs kernels compiled with access hooks: a thread gives way at about every n-th access to
    // memory. 0: never.
    uint32_t preempt_every = 0;
    // Needs access hooks: unordered accesses to the same bytes are faults.
    bool races = true;
    // What a block may have: at most kMaxSharedBytes.
    size_t max_shared_bytes = kMaxSharedBytes;
};

// The settings of the launches that follow.
Settings& settings();

// Whether kernels in this program were compiled with access hooks (-fsanitize=thread).
bool has_access_hooks();

// Whether AddressSanitizer watches this program: it ends it at the first access past an array.
bool has_address_sanitizer();

// Puts settings in force until destroyed.
class ScopedSettings {
  public:
    explicit ScopedSettings(const Settings& wanted) : before_(settings()) { settings() = wanted; }
    ~ScopedSettings() { settings() = before_; }
    ScopedSettings(const ScopedSettings&) = delete;
    ScopedSettings& operator=(const ScopedSettings&) = delete;

  private:
    Settings before_;
};

}  // namespace nvllm::gpu::emulation
