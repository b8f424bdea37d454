// Runs the threads of one block as fibers: who runs next, who waits, who has ended.
//
// One block at a time and one launch at a time in the process (launch.h holds the lock). Threads
// give way only where they call wait() or give_way(); between those, what a thread does is atomic.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/fiber.h"
#include "kernels/cuda_emulation/settings.h"
#include "kernels/cuda_emulation/thread.h"

namespace nvllm::gpu::emulation {

using Body = void (*)(void* argument);

class Scheduler {
  public:
    static Scheduler& instance();

    // Takes over the settings, and seeds the random orders.
    void begin_launch(const Settings& wanted, const dim3& grid, const dim3& block);
    // What may be done for the block when no thread can run; whether something was.
    void set_idle_work(bool (*work)()) { idle_work_ = work; }
    // Runs one block to its end. Throws Fault. The threads of a block that failed are dropped where
    // they stood.
    void run_block(const uint3& block, Body body, void* argument);

    // For the running thread: waits until wake() names it. `what`, `where` and the lanes `mask` it
    // waits for are for reports.
    void wait(const char* what, const Site& where, uint32_t mask = 0);
    // For the running thread: lets the others run first, as in a loop that polls memory.
    void give_way();
    // For the running thread, at an access to memory: gives way at random, as often as the settings
    // ask.
    void maybe_preempt() {
        if (until_preemption_ != 0 && --until_preemption_ == 0) preempt();
    }
    // The thread may run again.
    void wake(Thread& thread);

    // Throws Fault: it ends the launch with a report. fail_at() names the place and the thread.
    [[noreturn]] static void fail(const std::string& message);
    [[noreturn]] void fail_at(const Site& where, const std::string& message);

    // For the running thread where it must not throw: ends the launch with a report and never
    // returns.
    [[noreturn]] void stop(std::string message);

    int num_threads() const { return num_threads_; }
    int num_warps() const { return (num_threads_ + kWarpSize - 1) / kWarpSize; }
    Thread& thread(int number) { return threads_[static_cast<size_t>(number)]; }
    Thread& thread_of(int warp, int lane) { return thread(warp * kWarpSize + lane); }
    // The lanes of a warp that exist, and those of them that have ended.
    uint32_t lanes_of(int warp) const;
    uint32_t ended_lanes(int warp) const { return warps_[static_cast<size_t>(warp)].ended; }
    int num_ended() const { return num_ended_; }
    // The arguments of the kernel, which threads read before its first line.
    void set_arguments(const void* begin, size_t bytes) {
        arguments_ = static_cast<const std::byte*>(begin);
        arguments_bytes_ = bytes;
    }
    // Whether an address is of the kernel's arguments or of those that builtin variables are read
    // from.
    bool owns(const void* address) const {
        return (address >= threads_.data() && address < threads_.data() + threads_.size()) ||
               address == &current ||
               (address >= arguments_ && address < arguments_ + arguments_bytes_);
    }
    const Settings& settings() const { return settings_; }
    std::mt19937_64& random() { return random_; }
    // "block (1,0,0) thread 37"
    std::string describe(const Thread& thread) const;

  private:
    struct Warp {
        uint32_t ready = 0;    // may run
        uint32_t yielded = 0;  // has given way in this round
        uint32_t ended = 0;
    };

    Scheduler();
    void prepare_block(const uint3& block);
    bool round();
    bool run_warp(int warp);
    bool run_one_at_random();
    bool run_warps_greedily();
    void step(int warp, int lane);
    void end_thread(Thread& thread);
    void drop_threads();
    Fiber* take_fiber();
    void preempt();
    void draw_preemption();
    [[noreturn]] void report_deadlock();
    static void thread_main(void* scheduler);

    Settings settings_;
    std::mt19937_64 random_;
    dim3 grid_;
    dim3 block_size_;
    int num_threads_ = 0;
    int num_ended_ = 0;
    int yields_without_progress_ = 0;
    uint64_t until_preemption_ = 0;  // accesses; 0: never
    bool (*idle_work_)() = nullptr;
    Body body_ = nullptr;
    void* argument_ = nullptr;
    const std::byte* arguments_ = nullptr;
    size_t arguments_bytes_ = 0;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<int> warp_order_;
    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<Fiber*> idle_fibers_;
    std::optional<std::string> failure_;
    std::exception_ptr thrown_;
};

}  // namespace nvllm::gpu::emulation
