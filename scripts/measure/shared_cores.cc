// How much slower a pool's regions get while other processes take part of its cores, beside what
// the lost share of CPU time explains. Prints one JSON line a round.
// Usage: nvllm-shared-cores [THREADS [ROUNDS [BUSY_US [PERIOD_US]]]]
//
// The load is like a decode step's: regions of 6 to 600 us, 12 ranges a thread, arithmetic only.
// The others are one process on each processor, BUSY_US of CPU time every PERIOD_US. What else runs
// on the machine counts as lost too, from /proc/stat.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/host/cpu_count.h"
#include "kernels/host/thread_pool.h"

namespace {

constexpr int kRangesAThread = 12;
constexpr int kRegions = 500;
constexpr std::array kRegionMicroseconds = {300.0, 15.0, 120.0, 30.0, 600.0, 6.0, 300.0};

// Seen by all processes.
struct Shared {
    std::atomic<bool> disturb{false};
    std::atomic<double> used_s{0.0};
};

double seconds(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

[[noreturn]] void disturb(int cpu, double busy_s, double period_s, Shared& shared) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setsid();  // a group of its own to the scheduler, as other people's programs are
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    ::sched_setaffinity(0, sizeof(set), &set);
    std::minstd_rand random(static_cast<unsigned>(cpu) + 1);
    double next_s = seconds(CLOCK_MONOTONIC);
    for (;;) {
        const double begin_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
        const double burst_s = busy_s * (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000.0);
        while (shared.disturb && seconds(CLOCK_PROCESS_CPUTIME_ID) < begin_s + burst_s) {
        }
        shared.used_s += seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_s;
        next_s = std::max(next_s + period_s, seconds(CLOCK_MONOTONIC) - period_s);
        const double rest_s = next_s - seconds(CLOCK_MONOTONIC);
        if (rest_s > 0) ::usleep(static_cast<useconds_t>(rest_s * 1e6));
    }
}

// CPU time of the whole machine that was not idle.
double busy_s() {
    std::ifstream stat("/proc/stat");
    std::string name;
    std::array<double, 8> ticks{};
    stat >> name;
    for (double& value : ticks) stat >> value;
    constexpr size_t kIdle = 3;
    constexpr size_t kWaiting = 4;
    double sum = 0;
    for (size_t i = 0; i < ticks.size(); ++i) sum += i == kIdle || i == kWaiting ? 0 : ticks[i];
    return sum / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void compute(int64_t units) {
    static std::atomic<float> sink;
    std::array<float, 8> values = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int64_t i = 0; i < units * 16; ++i) {
        for (float& value : values) value = value * 0.999f + 0.001f;
    }
    sink.store(values[0] + values[7], std::memory_order_relaxed);
}

double unit_s() {
    constexpr int64_t kUnits = 20000;
    double best_s = 1.0;
    for (int i = 0; i < 20; ++i) {
        const double begin_s = seconds(CLOCK_THREAD_CPUTIME_ID);
        compute(kUnits);
        best_s = std::min(best_s, seconds(CLOCK_THREAD_CPUTIME_ID) - begin_s);
    }
    return best_s / kUnits;
}

struct Sample {
    double wall_s = 0;
    double lost = 0;  // share of the CPU time of as many cores as there are threads
};

Sample measure(nvllm::ThreadPool& pool, double one_s, const Shared& shared) {
    const double busy_before_s = busy_s();
    const double own_before_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double used_before_s = shared.used_s;
    const double begin_s = seconds(CLOCK_MONOTONIC);
    for (size_t i = 0; i < kRegions; ++i) {
        const double region_s = kRegionMicroseconds[i % kRegionMicroseconds.size()] * 1e-6;
        const int threads = pool.num_threads();
        const auto units = std::max<int64_t>(1, static_cast<int64_t>(region_s * threads / one_s));
        pool.parallel_for(units, std::max<int64_t>(1, units / (threads * kRangesAThread)),
                          [](int64_t begin, int64_t end, int) { compute(end - begin); });
    }
    Sample sample;
    sample.wall_s = seconds(CLOCK_MONOTONIC) - begin_s;
    const double own_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - own_before_s;
    // The kernel's count has ticks of 10 ms, that of the processes here is exact.
    const double foreign_s =
        std::max(busy_s() - busy_before_s - own_s, shared.used_s - used_before_s);
    sample.lost = std::clamp(foreign_s / (sample.wall_s * pool.num_threads()), 0.0, 0.99);
    return sample;
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int place, double otherwise) {
        return place < argc ? std::atof(argv[place]) : otherwise;
    };
    const int threads = static_cast<int>(number(1, nvllm::default_num_threads()));
    const int rounds = static_cast<int>(number(2, 10));
    const double busy = number(3, 2100) * 1e-6;
    const double period = number(4, 5300) * 1e-6;
    void* page =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return EXIT_FAILURE;
    Shared& shared = *new (page) Shared;
    std::vector<pid_t> others;
    for (const int cpu : nvllm::allowed_cpus()) {
        others.push_back(::fork());
        if (others.back() == 0) disturb(cpu, busy, period, shared);
    }
    const double one_s = unit_s();
    nvllm::ThreadPool pool(threads);
    for (int round = 0; round < rounds; ++round) {
        shared.disturb = false;
        ::usleep(20000);
        const Sample alone = measure(pool, one_s, shared);
        shared.disturb = true;
        const Sample beside = measure(pool, one_s, shared);
        const double slowdown = beside.wall_s / alone.wall_s;
        const double explained = (1 - alone.lost) / (1 - beside.lost);
        std::printf(
            "{\"alone_s\": %.4f, \"lost_alone\": %.3f, \"shared_s\": %.4f, \"lost_shared\": %.3f, "
            "\"slowdown\": %.2f, \"explained\": %.2f, \"ratio\": %.2f}\n",
            alone.wall_s, alone.lost, beside.wall_s, beside.lost, slowdown, explained,
            slowdown / explained);
    }
    for (const pid_t other : others) {
        ::kill(other, SIGKILL);
        ::waitpid(other, nullptr, 0);
    }
    return EXIT_SUCCESS;
}
