// Reads /proc/self and asks for limits.
#include "lib/system/process_info.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace nvllm {
namespace {

double seconds_on(clockid_t clock) {
    timespec time{};
    if (::clock_gettime(clock, &time) != 0) return 0.0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

uint64_t count_open_files() {
    std::error_code failed;
    uint64_t count = 0;
    for (std::filesystem::directory_iterator entry("/proc/self/fd", failed), end;
         !failed && entry != end; entry.increment(failed)) {
        ++count;
    }
    return count > 0 ? count - 1 : 0;  // the folder itself is open while it is read
}

// The fields of /proc/self/stat that are wanted; the name before them, in parentheses, may hold
// anything.
struct StatFields {
    uint64_t num_threads = 0;
    uint64_t start_ticks = 0;  // since boot
    uint64_t virtual_bytes = 0;
    uint64_t resident_pages = 0;
};

StatFields read_stat() {
    std::ifstream stream("/proc/self/stat");
    std::string line;
    std::getline(stream, line);
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) return {};
    std::istringstream rest(line.substr(name_end + 1));
    constexpr int kFirstAfterName = 3;
    constexpr int kNumThreads = 20;
    StatFields fields;
    std::string skipped;
    for (int field = kFirstAfterName; field < kNumThreads; ++field) rest >> skipped;
    rest >> fields.num_threads >> skipped >> fields.start_ticks >> fields.virtual_bytes >>
        fields.resident_pages;
    return rest ? fields : StatFields{};
}

double start_time(const StatFields& fields) {
    const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const double age_s =
        seconds_on(CLOCK_BOOTTIME) - static_cast<double>(fields.start_ticks) / ticks_per_s;
    return seconds_on(CLOCK_REALTIME) - age_s;
}

}  // namespace

ProcessStats process_stats() {
    const StatFields fields = read_stat();
    ProcessStats stats;
    stats.cpu_s = seconds_on(CLOCK_PROCESS_CPUTIME_ID);
    stats.resident_bytes = fields.resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    stats.virtual_bytes = fields.virtual_bytes;
    stats.num_open_files = count_open_files();
    stats.num_threads = fields.num_threads;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_open_files = limit.rlim_cur;
    // Worked out once: both clocks tick on between two readings.
    static const double start_time_s = start_time(fields);
    stats.start_time_s = start_time_s;
    return stats;
}

}  // namespace nvllm
