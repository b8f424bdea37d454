// Worker threads that join a parallel region while it is open.
//
// A region is one word, the gate: its epoch, whether it is open, how many workers are inside, and
// who sleeps at it. A worker that is late (asleep, or without a core) finds the gate shut and the
// caller never waits for it; the caller waits only for those inside. So a pool with more threads
// than cores is slow but never stuck.
#include "kernels/host/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/error.h"
#include "kernels/host/cpu_count.h"
#include "kernels/host/futex.h"
#include "kernels/host/start_thread.h"

namespace nvllm {
namespace {

constexpr uint32_t kInsideMask = 0xfff;  // workers inside
constexpr uint32_t kOpen = 0x1000;
constexpr uint32_t kCallerSleeps = 0x2000;
constexpr uint32_t kWorkersSleep = 0x4000;
constexpr uint32_t kEpochStep = 0x8000;
constexpr uint32_t kEpochMask = ~(kEpochStep - 1);
constexpr int kMaxThreads = 1024;

// The two kinds of sleepers.
constexpr uint32_t kCaller = 1;
constexpr uint32_t kWorkers = 2;

// Between two regions of a step there is less than this to do.
constexpr auto kWorkerSpinTime = std::chrono::microseconds(50);
// A worker that is inside for longer has most likely lost its core. The system gives it this one
// only when no thread spins here, and not within half a millisecond of its last run: to sleep
// sooner leaves the core idle.
constexpr auto kCallerSpinTime = std::chrono::microseconds(600);
constexpr int kPausesBetweenClockReads = 16;
// Where threads of the pool share a core, the thread with work runs first, and no thread is woken.
constexpr int kYieldsBeforeSleep = 4;

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Whether each thread has a processor of its own; where not, spinning would take it from a thread
// that has work.
bool may_spin(const CpuPlacement& placement) {
    const CpuList bound = placement.cpus();
    const int num_cpus = bound.empty() ? usable_cpu_count() : static_cast<int>(bound.size());
    return placement.num_threads() <= std::min(num_cpus, usable_cpu_count());
}

}  // namespace

struct ThreadPool::State {
    explicit State(const CpuPlacement& where)
        : placement(where),
          num_threads(where.num_threads()),
          spins(may_spin(where)),
          shares(static_cast<size_t>(num_threads)) {}
    // Ends the workers that were started, be it fewer than were asked for.
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void open_gate();
    void shut_gate();
    void share_out(int64_t ranges);
    void run_ranges(int thread);
    void run_share(int share, int thread);
    void worker_loop(int thread);
    std::optional<uint32_t> wait_for_open_gate(uint32_t seen_epoch);
    void sleep_at_gate(uint32_t value);
    bool join(uint32_t gate_value);
    void leave();
    template <typename Condition>
    bool wait_awake(Condition condition, std::chrono::microseconds spin_time) const;

    const CpuPlacement placement;
    const int num_threads;
    const bool spins;
    std::vector<std::thread> workers;

    // The region; written by the caller while the gate is shut and no worker is inside.
    const RangeFunction* function = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
    std::exception_ptr error;
    std::mutex error_mutex;

    std::atomic<bool> stopping{false};
    std::atomic<bool> busy{false};
    alignas(64) std::atomic<uint32_t> gate{0};

    // Ranges of each thread, which others help with once they are done with theirs.
    struct alignas(64) Share {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };
    std::vector<Share> shares;
};

void ThreadPool::State::share_out(int64_t ranges) {
    int64_t begin = 0;
    for (int thread = 0; thread < num_threads; ++thread) {
        Share& share = shares[static_cast<size_t>(thread)];
        share.next.store(begin, std::memory_order_relaxed);
        share.end = begin = ranges * (thread + 1) / num_threads;
    }
}

void ThreadPool::State::run_ranges(int thread) {
    for (int i = 0; i < num_threads; ++i) run_share((thread + i) % num_threads, thread);
}

void ThreadPool::State::run_share(int share, int thread) {
    Share& from = shares[static_cast<size_t>(share)];
    while (from.next.load(std::memory_order_relaxed) < from.end) {
        const int64_t range = from.next.fetch_add(1, std::memory_order_relaxed);
        if (range >= from.end) return;
        try {
            (*function)(range * grain, std::min(count, (range + 1) * grain), thread);
        } catch (...) {
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
            for (Share& rest : shares) rest.next.store(rest.end, std::memory_order_relaxed);
        }
    }
}

// False when the limit passed first: the calling thread may sleep.
template <typename Condition>
bool ThreadPool::State::wait_awake(Condition condition, std::chrono::microseconds spin_time) const {
    if (condition()) return true;
    const auto end = std::chrono::steady_clock::now() + spin_time;
    for (int pauses = 1; spins; ++pauses) {
        pause_briefly();
        if (condition()) return true;
        if (pauses % kPausesBetweenClockReads != 0) continue;
        if (std::chrono::steady_clock::now() >= end) break;
    }
    for (int i = 0; i < kYieldsBeforeSleep; ++i) {
        std::this_thread::yield();
        if (condition()) return true;
    }
    return false;
}

// No worker is inside and the gate is shut, so nothing but the epoch is kept.
void ThreadPool::State::open_gate() {
    const uint32_t epoch = gate.load(std::memory_order_relaxed) & kEpochMask;
    const uint32_t before = gate.exchange((epoch + kEpochStep) | kOpen, std::memory_order_acq_rel);
    if ((before & kWorkersSleep) != 0) futex_wake(gate, kWorkers);
}

// Returns when those inside have left.
void ThreadPool::State::shut_gate() {
    gate.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto all_left = [this] {
        return (gate.load(std::memory_order_acquire) & kInsideMask) == 0;
    };
    if (wait_awake(all_left, kCallerSpinTime)) return;
    uint32_t value = gate.fetch_or(kCallerSleeps, std::memory_order_acq_rel) | kCallerSleeps;
    while ((value & kInsideMask) != 0) {
        futex_wait(gate, value, kCaller);
        value = gate.load(std::memory_order_acquire);
    }
    gate.fetch_and(~kCallerSleeps, std::memory_order_relaxed);
}

// The gate's value once it is open for a region after `seen_epoch`; empty when the pool stops.
std::optional<uint32_t> ThreadPool::State::wait_for_open_gate(uint32_t seen_epoch) {
    uint32_t value = 0;
    const auto is_news = [&] {
        value = gate.load(std::memory_order_acquire);
        return stopping.load(std::memory_order_acquire) ||
               ((value & kOpen) != 0 && (value & kEpochMask) != seen_epoch);
    };
    if (!wait_awake(is_news, kWorkerSpinTime)) {
        while (!is_news()) sleep_at_gate(value);
    }
    if (stopping.load(std::memory_order_acquire)) return std::nullopt;
    return value;
}

// The thread that opens the gate learns from its last value that a worker sleeps.
void ThreadPool::State::sleep_at_gate(uint32_t value) {
    const uint32_t asleep = value | kWorkersSleep;
    if (value == asleep || gate.compare_exchange_strong(value, asleep, std::memory_order_acq_rel)) {
        futex_wait(gate, asleep, kWorkers);
    }
}

bool ThreadPool::State::join(uint32_t value) {
    const uint32_t epoch = value & kEpochMask;
    while ((value & kOpen) != 0 && (value & kEpochMask) == epoch) {
        if (gate.compare_exchange_weak(value, value + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
}

void ThreadPool::State::leave() {
    const uint32_t before = gate.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kInsideMask) == 1 && (before & kCallerSleeps) != 0) futex_wake(gate, kCaller);
}

void ThreadPool::State::worker_loop(int thread) {
    bind_this_thread(placement, thread);
    uint32_t seen_epoch = 0;
    while (const std::optional<uint32_t> value = wait_for_open_gate(seen_epoch)) {
        seen_epoch = *value & kEpochMask;
        if (!join(*value)) continue;
        run_ranges(thread);
        leave();
    }
}

ThreadPool::ThreadPool(int num_threads) : ThreadPool(free_placement(num_threads)) {}

ThreadPool::ThreadPool(const CpuPlacement& placement) {
    const int num_threads = placement.num_threads();
    NVLLM_CHECK(num_threads >= 1 && num_threads <= kMaxThreads,
                "a pool of " + std::to_string(num_threads) + " threads");
    state_ = std::make_unique<State>(placement);
    state_->workers.reserve(static_cast<size_t>(num_threads) - 1);
    for (int thread = 1; thread < num_threads; ++thread) {
        state_->workers.push_back(
            start_thread([state = state_.get(), thread] { state->worker_loop(thread); }));
    }
}

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

ThreadPool ThreadPool::of_dry_run(int num_threads) {
    auto state = std::make_unique<State>(free_placement(num_threads));
    state->busy.store(true, std::memory_order_relaxed);
    return ThreadPool(std::move(state));
}

ThreadPool::~ThreadPool() = default;

ThreadPool::State::~State() {
    stopping.store(true, std::memory_order_release);
    gate.fetch_add(kEpochStep, std::memory_order_acq_rel);
    futex_wake(gate, kWorkers);
    for (std::thread& worker : workers) worker.join();
}

int ThreadPool::num_threads() const { return state_->num_threads; }

std::string ThreadPool::bind_caller() const { return bind_this_thread(state_->placement, 0); }

void ThreadPool::parallel_for(int64_t count, int64_t grain, RangeFunction function) {
    NVLLM_CHECK(grain > 0, "ranges must hold at least one item");
    if (count <= 0) return;
    State& state = *state_;
    NVLLM_CHECK(!state.busy.exchange(true, std::memory_order_acquire),
                "a parallel region inside another, from a second thread, or in a dry run");
    state.function = &function;
    state.count = count;
    state.grain = grain;
    state.error = nullptr;

    const int64_t ranges = (count + grain - 1) / grain;
    if (state.num_threads > 1 && ranges > 1) {
        state.share_out(ranges);
        state.open_gate();
        state.run_ranges(0);
        state.shut_gate();
    } else {
        state.shares[0].next.store(0, std::memory_order_relaxed);
        state.shares[0].end = ranges;
        state.run_share(0, 0);
    }
    const std::exception_ptr error = state.error;
    state.error = nullptr;
    state.busy.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
}

}  // namespace nvllm
