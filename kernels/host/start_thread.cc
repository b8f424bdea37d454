// Looks up limits once a thread was refused.
#include "kernels/host/start_thread.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>

#include "kernels/error.h"
#include "kernels/host/control_groups.h"

#if defined(__linux__)
#include <sys/resource.h>
#endif

namespace nvllm {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::string user_limit() {
#if defined(__linux__)
    rlimit limit{};
    if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return std::to_string(limit.rlim_cur);
    }
#endif
    return "";
}

std::string describe(const std::string& user_limit, const std::vector<ControlGroup>& groups) {
    uint64_t least = kNoLimit;
    for (const ControlGroup& group : groups) {
        std::ifstream file(group.folder / "pids.max");
        uint64_t limit = 0;
        if (file >> limit) least = std::min(least, limit);
    }
    std::string text;
    if (!user_limit.empty()) text += "ulimit -u " + user_limit;
    if (least != kNoLimit) {
        text += (text.empty() ? "" : ", ") + ("pids.max " + std::to_string(least)) +
                " of the control group (TasksMax= of systemd, --pids-limit of containers)";
    }
    return text.empty() ? "none is set" : text;
}

}  // namespace

std::string describe_thread_limits() { return describe(user_limit(), control_groups("pids")); }

std::string describe_thread_limits(const std::string& user_limit, std::istream& membership,
                                   const std::filesystem::path& root) {
    return describe(user_limit, control_groups("pids", membership, root));
}

void throw_no_thread(const std::system_error& refusal) {
    throw Error(ErrorKind::unavailable,
                "a thread cannot be started: " + refusal.code().message() +
                    "; use fewer --threads, or raise the limit of threads (" +
                    describe_thread_limits() + ") or of memory");
}

}  // namespace nvllm
