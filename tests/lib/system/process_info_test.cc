// What the system says of this very process.
#include "lib/system/process_info.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <vector>

#include "lib/system/memory_info.h"

namespace nvllm {
namespace {

TEST_CASE("figures of this process") {
    const ProcessStats before = process_stats();
    CHECK(before.cpu_s > 0.0);
    CHECK(before.num_threads >= 1);
    CHECK(before.max_open_files > before.num_open_files);
    CHECK(before.virtual_bytes > before.resident_bytes);
    const auto resident = static_cast<double>(resident_memory_bytes());
    CHECK(static_cast<double>(before.resident_bytes) == doctest::Approx(resident).epsilon(0.3));
    const auto now = static_cast<double>(std::time(nullptr));
    CHECK(before.start_time_s <= now + 1.0);
    CHECK(before.start_time_s > now - 3600.0);

    std::vector<int> files;
    for (int i = 0; i < 5; ++i) files.push_back(::open("/dev/null", O_RDONLY));
    const ProcessStats after = process_stats();
    CHECK(after.num_open_files == before.num_open_files + 5);
    CHECK(after.start_time_s == before.start_time_s);
    CHECK(after.cpu_s >= before.cpu_s);
    for (const int file : files) ::close(file);
}

}  // namespace
}  // namespace nvllm
