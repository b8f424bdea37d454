// What made-up control groups leave.
#include "lib/system/memory_info.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "lib/system/process_info.h"
#include "tests/kernels/made_up_machine.h"

namespace nvllm {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kNoLimit = UINT64_MAX;

class Groups : public testing::MadeUpMachine {
  public:
    using MadeUpMachine::write;
    void write(const std::string& file, uint64_t mib) {
        write(file, std::to_string(mib * kMib) + "\n");
    }
    uint64_t left(const std::string& membership) const {
        std::istringstream lines(membership);
        return left_in_control_groups(control_groups("memory", lines, root()));
    }
};

std::string stat_line(const char* name, uint64_t mib) {
    return std::string(name) + " " + std::to_string(mib * kMib) + "\n";
}

TEST_CASE("version 2: pages of files are free, anonymous ones are not") {
    Groups groups;
    groups.write("pod/memory.max", 1000);
    groups.write("pod/memory.current", 990);
    CHECK(groups.left("0::/pod\n") == 10 * kMib);  // without memory.stat all of it is in use
    groups.write("pod/memory.stat", stat_line("anon", 90) + stat_line("inactive_anon", 70) +
                                        stat_line("inactive_file", 600) +
                                        stat_line("active_file", 300));
    CHECK(groups.left("0::/pod\n") == 910 * kMib);
    CHECK(groups.left("1:name=systemd:/pod\n0::/pod\n") == 910 * kMib);
    groups.write("pod/memory.max", "max\n");
    CHECK(groups.left("0::/pod\n") == kNoLimit);
}

TEST_CASE("version 1: the group's own pages and those of the groups below it") {
    Groups groups;
    groups.write("memory/box/memory.limit_in_bytes", 800);
    groups.write("memory/box/memory.usage_in_bytes", 700);
    groups.write("memory/box/memory.stat",
                 stat_line("inactive_file", 1) + stat_line("total_inactive_file", 500) +
                     stat_line("total_active_file", 50) + stat_line("total_rss", 150));
    CHECK(groups.left("3:cpuset:/\n4:memory:/box\n0::/\n") == 650 * kMib);
    CHECK(groups.left("4:cpu,memory:/box\n") == 650 * kMib);
    CHECK(groups.left("4:cpuset:/box\n") == kNoLimit);
}

TEST_CASE("every group above counts, each with its own page cache") {
    Groups groups;
    groups.write("memory.max", 4000);
    groups.write("memory.current", 100);
    groups.write("a/memory.max", 1000);
    groups.write("a/memory.current", 900);
    groups.write("a/memory.stat", stat_line("inactive_file", 100));
    groups.write("a/b/memory.max", 600);
    groups.write("a/b/memory.current", 500);
    groups.write("a/b/memory.stat", stat_line("inactive_file", 300));
    CHECK(groups.left("0::/a/b\n") == 200 * kMib);
    CHECK(groups.left("0::/a/b/without/files\n") == 200 * kMib);
    CHECK(groups.left("0::/\n") == 3900 * kMib);
    groups.write("a/b/memory.current", 700);  // above a limit that was lowered
    CHECK(groups.left("0::/a/b\n") == 200 * kMib);
    groups.write("a/b/memory.stat", stat_line("inactive_file", 50));
    CHECK(groups.left("0::/a/b\n") == 0);
}

TEST_CASE("no control groups, or lines of another form") {
    Groups groups;
    for (const char* text : {"", "nonsense\n", "4:memory\n", "0::/gone\n", "4:memory:/gone\n"}) {
        CHECK(groups.left(text) == kNoLimit);
    }
}

TEST_CASE("a limited address space is a limit on memory") {
    constexpr uint64_t kLeft = 64 * kMib;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
    rlimit lowered = before;
    lowered.rlim_cur = std::min<rlim_t>(before.rlim_cur, process_stats().virtual_bytes + kLeft);
    REQUIRE(::setrlimit(RLIMIT_AS, &lowered) == 0);
    const uint64_t limited = available_memory_bytes();
    ::setrlimit(RLIMIT_AS, &before);
    CHECK(limited > 0);
    CHECK(limited <= kLeft);
}

}  // namespace
}  // namespace nvllm
