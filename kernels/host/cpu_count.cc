// Asks the scheduler for the affinity mask, and the files of control groups, versions 1 and 2.
#include "kernels/host/cpu_count.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/host/control_groups.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace nvllm {
namespace {

// Cores in a file "max 100000" or "150000 100000" of version 2.
std::optional<double> version2_quota(const std::filesystem::path& folder) {
    std::ifstream file(folder / "cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
}

// Cores in the two files of version 1, where a quota of -1 means none.
std::optional<double> version1_quota(const std::filesystem::path& folder) {
    std::ifstream quota_file(folder / "cpu.cfs_quota_us");
    std::ifstream period_file(folder / "cpu.cfs_period_us");
    double quota = 0;
    double period = 0;
    if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) {
        return quota / period;
    }
    return std::nullopt;
}

// A group cannot use more than any group that holds it.
double min_quota() {
    double cores = INFINITY;
    for (const ControlGroup& group : control_groups("cpu")) {
        const std::optional<double> limit =
            group.version == 2 ? version2_quota(group.folder) : version1_quota(group.folder);
        if (limit) cores = std::min(cores, *limit);
    }
    return cores;
}

}  // namespace

CpuList allowed_cpus() {
    CpuList cpus;
#if defined(__linux__)
    // The system refuses sets that are smaller than its own.
    for (size_t sets = 1; sets * CPU_SETSIZE <= kMaxCpus; sets *= 4) {
        std::vector<cpu_set_t> allowed(sets);
        const size_t bytes = sets * sizeof(cpu_set_t);
        if (sched_getaffinity(0, bytes, allowed.data()) != 0) continue;
        for (size_t cpu = 0; cpu < bytes * 8; ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, allowed.data())) cpus.push_back(static_cast<int>(cpu));
        }
        break;
    }
#endif
    return cpus;
}

std::optional<double> cpu_quota() {
    const double cores = min_quota();
    if (std::isinf(cores)) return std::nullopt;
    return cores;
}

int usable_cpu_count() {
    const CpuList cpus = allowed_cpus();
    const size_t count = cpus.empty() ? std::thread::hardware_concurrency() : cpus.size();
    // Rounded down: a thread beyond the quota would be throttled, and all others wait for it.
    return std::max(1, static_cast<int>(std::min(min_quota(), static_cast<double>(count))));
}

}  // namespace nvllm
