// Worker threads that join a parallel region while it is open.
//
// A region is one word, the gate: its epoch, whether it is open, and how many workers are inside. A
// worker that is late (asleep, or without a core) finds the gate shut and the caller never waits
// for it; the caller waits only for those inside. So a pool with more threads than cores is slow
// but never stuck.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr uint32_t kInsideMask = 0xfff;  // workers inside
constexpr uint32_t kOpen = 0x1000;
constexpr uint32_t kEpochStep = 0x2000;
constexpr uint32_t kEpochMask = ~(kInsideMask | kOpen);
constexpr int kMaxThreads = 1024;

constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesBetweenClockReads = 64;

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

struct ThreadPool::State {
    explicit State(int count) : num_threads(count), spins(count <= usable_cpu_count()) {}

    void run_ranges(int thread);
    void worker_loop(int thread);
    std::optional<uint32_t> wait_for_open_gate(uint32_t seen_epoch);
    bool join(uint32_t gate_value);
    void leave();

    const int num_threads;
    const bool spins;  // with fewer cores than threads, spinning would take a core from a thread
                       // that has work
    std::vector<std::thread> workers;

    // The region; written by the caller while the gate is shut and nobody is inside.
    const RangeFunction* function = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
    int64_t num_ranges = 0;
    std::exception_ptr error;
    std::mutex error_mutex;

    std::atomic<bool> stopping{false};
    std::atomic<bool> busy{false};
    alignas(64) std::atomic<uint32_t> gate{0};
    alignas(64) std::atomic<int64_t> next_range{0};
};

void ThreadPool::State::run_ranges(int thread) {
    for (;;) {
        const int64_t range = next_range.fetch_add(1, std::memory_order_relaxed);
        if (range >= num_ranges) return;
        try {
            (*function)(range * grain, std::min(count, (range + 1) * grain), thread);
        } catch (...) {
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
            next_range.store(num_ranges, std::memory_order_relaxed);
        }
    }
}

// The gate's value once it is open for a region after `seen_epoch`; empty when the pool stops.
std::optional<uint32_t> ThreadPool::State::wait_for_open_gate(uint32_t seen_epoch) {
    const auto sleep_at = std::chrono::steady_clock::now() + kSpinTime;
    bool may_spin = spins;
    for (int pauses = 1;; ++pauses) {
        const uint32_t value = gate.load(std::memory_order_acquire);
        if (stopping.load(std::memory_order_acquire)) return std::nullopt;
        if ((value & kOpen) != 0 && (value & kEpochMask) != seen_epoch) return value;
        if (!may_spin) {
            gate.wait(value, std::memory_order_acquire);
            continue;
        }
        pause_briefly();
        if (pauses % kPausesBetweenClockReads == 0) {
            may_spin = std::chrono::steady_clock::now() < sleep_at;
        }
    }
}

bool ThreadPool::State::join(uint32_t value) {
    const uint32_t epoch = value & kEpochMask;
    while ((value & kOpen) != 0 && (value & kEpochMask) == epoch) {
        if (gate.compare_exchange_weak(value, value + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
}

void ThreadPool::State::leave() { gate.fetch_sub(1, std::memory_order_release); }

void ThreadPool::State::worker_loop(int thread) {
    uint32_t seen_epoch = 0;
    while (const std::optional<uint32_t> value = wait_for_open_gate(seen_epoch)) {
        seen_epoch = *value & kEpochMask;
        if (!join(*value)) continue;
        run_ranges(thread);
        leave();
    }
}

ThreadPool::ThreadPool(int num_threads) {
    NVLLM_CHECK(num_threads >= 1 && num_threads <= kMaxThreads,
                "a pool of " + std::to_string(num_threads) + " threads");
    state_ = std::make_unique<State>(num_threads);
    for (int thread = 1; thread < num_threads; ++thread) {
        state_->workers.emplace_back(
            [state = state_.get(), thread] { state->worker_loop(thread); });
    }
}

ThreadPool::~ThreadPool() {
    state_->stopping.store(true, std::memory_order_release);
    state_->gate.fetch_add(kEpochStep, std::memory_order_acq_rel);
    state_->gate.notify_all();
    for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return state_->num_threads; }

void ThreadPool::parallel_for(int64_t count, int64_t grain, RangeFunction function) {
    NVLLM_CHECK(grain > 0, "ranges must hold at least one item");
    if (count <= 0) return;
    State& state = *state_;
    NVLLM_CHECK(!state.busy.exchange(true, std::memory_order_acquire),
                "a parallel region inside another, or from a second thread");
    state.function = &function;
    state.count = count;
    state.grain = grain;
    state.num_ranges = (count + grain - 1) / grain;
    state.error = nullptr;
    state.next_range.store(0, std::memory_order_relaxed);

    const bool shared = state.num_threads > 1 && state.num_ranges > 1;
    if (shared) {
        // Nobody is inside and the gate is shut, so only the epoch is kept.
        const uint32_t epoch = state.gate.load(std::memory_order_relaxed) & kEpochMask;
        state.gate.store((epoch + kEpochStep) | kOpen, std::memory_order_release);
        state.gate.notify_all();
    }
    state.run_ranges(0);
    if (shared) {
        state.gate.fetch_and(~kOpen, std::memory_order_acq_rel);
        for (int pauses = 0; (state.gate.load(std::memory_order_acquire) & kInsideMask) != 0;
             ++pauses) {
            // A worker inside may have lost its core: after a while leave ours to it.
            if (state.spins && pauses < 10000) {
                pause_briefly();
            } else {
                std::this_thread::yield();
            }
        }
    }
    const std::exception_ptr error = state.error;
    state.error = nullptr;
    state.busy.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
}

}  // namespace nvllm
