// Memory, time and descriptors of this process, read from the system on each call.
#pragma once

#include <cstdint>

namespace nvllm {

struct ProcessStats {
    double cpu_s = 0.0;  // user and system, of all threads
    uint64_t resident_bytes = 0;
    uint64_t virtual_bytes = 0;
    uint64_t num_open_files = 0;  // costs time in proportion
    uint64_t max_open_files = 0;  // the limit at which opening fails
    uint64_t num_threads = 0;
    double start_time_s = 0.0;  // since 1970
};

// What cannot be read is 0.
ProcessStats process_stats();

}  // namespace nvllm
