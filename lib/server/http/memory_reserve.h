// Memory kept back for when there is no more: responses in flight go on with it while new requests
// are refused.
//
// What an event loop does between two responses must not fail for lack of memory: Asio loses a
// coroutine whose next operation cannot be allocated. So the process's new-handler lets the reserve
// go, piece by piece, to every thread that asks, and makes them wait when all is gone. What can be
// refused instead, a new request with all that is read of it, does without (WithoutReserve).
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

namespace nvllm::server {

class MemoryReserve {
  public:
    // Keeps so much back from here on. One at a time in a process. Once all is let go, an
    // allocation fails after `patience`. Throws std::bad_alloc.
    MemoryReserve(size_t bytes, std::chrono::milliseconds patience);
    // What comes after it fails at once when there is no memory.
    ~MemoryReserve();
    MemoryReserve(const MemoryReserve&) = delete;
    MemoryReserve& operator=(const MemoryReserve&) = delete;

    // Takes back what was let go as far as there is memory; true when all is here. From any thread.
    bool refill();
    bool is_whole() const;
    // More than half was let go.
    bool is_low() const;

  private:
    friend void find_memory();
    bool let_one_go();

    const size_t num_pieces_;
    const std::chrono::milliseconds patience_;
    mutable std::mutex mutex_;
    std::vector<void*> pieces_;  // has room for all of them
};

// Whether the system would give the process so much more; nothing is kept.
bool can_have_memory(size_t bytes);

// While one lives, allocations of its thread fail when there is no memory: they neither take from
// the reserve nor wait, but for those of destructors while an exception is on its way.
//
// Not around values of nlohmann::json: their destructors allocate, and one that fails ends the
// process.
class WithoutReserve {
  public:
    WithoutReserve();
    ~WithoutReserve();
    WithoutReserve(const WithoutReserve&) = delete;
    WithoutReserve& operator=(const WithoutReserve&) = delete;
};

}  // namespace nvllm::server
