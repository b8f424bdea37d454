// Pieces of the allocator's own memory, and the new-handler that frees them.
#include "lib/server/http/memory_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

#include "kernels/error.h"

namespace nvllm::server {

using Clock = std::chrono::steady_clock;

// Below what the allocator asks the system for singly: freed, a piece is at once everybody's.
constexpr size_t kPieceBytes = 96 * 1024;
constexpr std::chrono::milliseconds kBetweenTries{1};
// Two failures this far apart are not of the same wait.
constexpr std::chrono::milliseconds kApart{50};

namespace {

std::atomic<MemoryReserve*> reserve = nullptr;
thread_local int depth_without_reserve = 0;

// How long this thread has waited for one allocation; handlers are not told when one succeeded.
Clock::duration waited() {
    thread_local Clock::time_point begun;
    thread_local Clock::time_point last;
    const Clock::time_point now = Clock::now();
    if (now - last > kApart) begun = now;
    last = now;
    return now - begun;
}

}  // namespace

// The new-handler: returns when it is worth trying again.
void find_memory() {
    MemoryReserve* mine = reserve;
    const bool goes_without = depth_without_reserve > 0 && std::uncaught_exceptions() == 0;
    if (mine == nullptr || goes_without) throw std::bad_alloc();
    if (mine->let_one_go()) return;
    if (waited() > mine->patience_) throw std::bad_alloc();
    std::this_thread::sleep_for(kBetweenTries);
}

MemoryReserve::MemoryReserve(size_t bytes, std::chrono::milliseconds patience)
    : num_pieces_((bytes + kPieceBytes - 1) / kPieceBytes), patience_(patience) {
    pieces_.reserve(num_pieces_);
    if (!refill()) {
        for (void* piece : pieces_) std::free(piece);
        throw std::bad_alloc();
    }
    NVLLM_CHECK(reserve.exchange(this) == nullptr, "a process has one memory reserve");
    std::set_new_handler(find_memory);
}

MemoryReserve::~MemoryReserve() {
    std::set_new_handler(nullptr);
    reserve = nullptr;
    for (void* piece : pieces_) std::free(piece);
}

bool MemoryReserve::refill() {
    const std::lock_guard lock(mutex_);
    while (pieces_.size() < num_pieces_) {
        void* piece = std::malloc(kPieceBytes);
        if (piece == nullptr) return false;
        pieces_.push_back(piece);
    }
    return true;
}

bool MemoryReserve::is_whole() const {
    const std::lock_guard lock(mutex_);
    return pieces_.size() == num_pieces_;
}

bool MemoryReserve::is_low() const {
    const std::lock_guard lock(mutex_);
    return pieces_.size() < num_pieces_ / 2;
}

bool MemoryReserve::let_one_go() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return false;
    std::free(pieces_.back());
    pieces_.pop_back();
    return true;
}

bool can_have_memory(size_t bytes) {
    void* space =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return false;
    ::munmap(space, bytes);
    return true;
}

WithoutReserve::WithoutReserve() { ++depth_without_reserve; }
WithoutReserve::~WithoutReserve() { --depth_without_reserve; }

}  // namespace nvllm::server
