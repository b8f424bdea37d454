// How many cores the process may use: the affinity mask and the quotas of control groups, versions
// 1 and 2.
#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "kernels/thread_pool.h"

namespace nvllm {
namespace {

int affinity_count() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
}

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

double quota_count(double cores) {
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

int usable_cpu_count() {
    // Rounded down: a thread beyond the quota would be throttled, and all others wait for it.
    return std::max(1, static_cast<int>(quota_count(affinity_count())));
}

}  // namespace nvllm
