// Asks the scheduler for the affinity mask, and the files of control groups, versions 1 and 2.
#include "kernels/cpu_count.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace nvllm {
namespace {

// Cores in a file "max 100000" or "150000 100000" of version 2.
std::optional<double> version2_quota(const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
}

// Cores in the two files of version 1, where a quota of -1 means none.
std::optional<double> version1_quota(const std::string& folder) {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
    std::ifstream period_file(folder + "/cpu.cfs_period_us");
    double quota = 0;
    double period = 0;
    if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) {
        return quota / period;
    }
    return std::nullopt;
}

bool names_cpu_controller(const std::string& controllers) {
    return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

// The least quota of `path` and the groups above it; a group cannot use more than any group that
// holds it.
template <typename Quota>
void apply_quotas(const std::string& root, std::string path, Quota quota, double& cores) {
    for (;;) {
        if (const std::optional<double> limit = quota(root + path)) cores = std::min(cores, *limit);
        const size_t slash = path.find_last_of('/');
        if (slash == std::string::npos) return;
        path.resize(slash);
    }
}

double least_quota() {
    double cores = INFINITY;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            apply_quotas("/sys/fs/cgroup", path, version2_quota, cores);
            apply_quotas("/sys/fs/cgroup/unified", path, version2_quota, cores);
        } else if (names_cpu_controller(controllers)) {
            apply_quotas("/sys/fs/cgroup/" + controllers, path, version1_quota, cores);
            apply_quotas("/sys/fs/cgroup/cpu", path, version1_quota, cores);
        }
    }
    return cores;
}

}  // namespace

CpuList allowed_cpus() {
    CpuList cpus;
#if defined(__linux__)
    // The system refuses sets that are smaller than its own.
    for (size_t sets = 1; sets * CPU_SETSIZE <= kMostCpus; sets *= 4) {
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
    const double cores = least_quota();
    if (std::isinf(cores)) return std::nullopt;
    return cores;
}

int usable_cpu_count() {
    const CpuList cpus = allowed_cpus();
    const size_t count = cpus.empty() ? std::thread::hardware_concurrency() : cpus.size();
    // Rounded down: a thread beyond the quota would be throttled, and all others wait for it.
    return std::max(1, static_cast<int>(std::min(least_quota(), static_cast<double>(count))));
}

}  // namespace nvllm
