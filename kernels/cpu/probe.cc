// Timed loops over memory and registers.
#include "kernels/cpu/probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/host/cpu_placement.h"
#include "kernels/host/start_thread.h"
#include "kernels/host/thread_pool.h"
#include "kernels/page_memory.h"

namespace nvllm {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Long enough for the clock to come down from what it does for a moment only.
constexpr double kSecondsOfPeak = 0.1;

// Operations that one thread carries out by `loop`, which runs a given number of rounds and returns
// the operations of one, until the time is over.
double operations_until(std::chrono::steady_clock::time_point start, double seconds,
                        double (*loop)(int64_t rounds)) {
    constexpr int64_t kRounds = 1 << 18;
    double operations = 0;
    do {
        operations += loop(kRounds) * static_cast<double>(kRounds);
    } while (seconds_since(start) < seconds);
    return operations;
}

// GFLOP/s of all threads together.
double peak(ThreadPool& threads, double (*loop)(int64_t rounds)) {
    constexpr int kRepeats = 5;
    double best = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        std::atomic<double> total = 0;
        const auto start = std::chrono::steady_clock::now();
        threads.parallel_for(threads.num_threads(), 1, [&](int64_t, int64_t, int) {
            total += operations_until(start, kSecondsOfPeak, loop);
        });
        best = std::max(best, total / seconds_since(start) / 1e9);
    }
    return best;
}

}  // namespace

double probe_read_bandwidth(ThreadPool& threads, size_t bytes, int repeats) {
    const PageMemory memory = take_pages(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    const auto count = static_cast<int64_t>(bytes);
    const int64_t part = (count + threads.num_threads() - 1) / threads.num_threads();
    // Written first, because untouched pages are all the same page of zeros.
    std::memset(memory.get(), 1, bytes);
    const cpu::Kernels& kernels = cpu::kernels();
    double best = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        for (const auto read : {kernels.read_one_stream, kernels.read_four_streams}) {
            const auto start = std::chrono::steady_clock::now();
            threads.parallel_for(count, part, [&](int64_t begin, int64_t end, int) {
                read(memory.get() + begin, end - begin);
            });
            best = std::max(best, static_cast<double>(bytes) / seconds_since(start) / 1e9);
        }
    }
    return best;
}

double probe_float32_peak(ThreadPool& threads) {
    return peak(threads, cpu::kernels().float32_loop);
}

double probe_bfloat16_peak(ThreadPool& threads) {
    return peak(threads, cpu::kernels().bfloat16_loop);
}

double probe_int8_peak(ThreadPool& threads) {
    return peak(threads, cpu::kernels().quantized.int8_loop);
}

double probe_handover_ns() {
    constexpr int64_t kBatches = 20, kBatch = 1000;
    if (default_num_threads() < 2) return 0;
    // Counts handovers: who waits for a number spins until the other has stored it. On a line of
    // its own.
    struct alignas(64) {
        std::atomic<int64_t> count = 0;
    } handovers;
    const auto wait_for = [&](int64_t number) {
        constexpr int kSpins = 1 << 14;  // then another program may need this core
        for (int spins = 0; handovers.count.load(std::memory_order_acquire) != number; ++spins) {
            if (spins >= kSpins) std::this_thread::yield();
        }
    };
    const auto hand_over = [&](int64_t number) {
        handovers.count.store(number, std::memory_order_release);
    };
    std::thread other = start_thread([&] {
        for (int64_t number = 1; number < 2 * kBatches * kBatch; number += 2) {
            wait_for(number);
            hand_over(number + 1);
        }
    });
    double best = std::numeric_limits<double>::infinity();
    for (int64_t batch = 0, number = 1; batch < kBatches; ++batch) {
        const auto start = std::chrono::steady_clock::now();
        for (int64_t i = 0; i < kBatch; ++i, number += 2) {
            hand_over(number);
            wait_for(number + 1);
        }
        best = std::min(best, seconds_since(start) * 1e9 / static_cast<double>(kBatch));
    }
    other.join();
    return best;
}

}  // namespace nvllm
