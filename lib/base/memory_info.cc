// Reads /proc and the control group files.
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/memory_info.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace nvllm {
namespace {

constexpr uint64_t kKib = 1024;

// "Name:   123 kB" in a /proc file, in bytes.
std::optional<uint64_t> proc_kib(const char* file, const std::string& name) {
    std::ifstream stream(file);
    std::string line;
    while (std::getline(stream, line)) {
        if (line.rfind(name + ":", 0) != 0) continue;
        std::istringstream rest(line.substr(name.size() + 1));
        uint64_t kib = 0;
        if (rest >> kib) return kib * kKib;
    }
    return std::nullopt;
}

// A number in a file; nothing when it is missing or says "max".
std::optional<uint64_t> number_in(const std::filesystem::path& file) {
    std::ifstream stream(file);
    uint64_t value = 0;
    if (stream >> value) return value;
    return std::nullopt;
}

// The folder of this process's control group for memory: version 2's line is "0::path".
struct ControlGroup {
    std::filesystem::path folder;
    const char* limit;
    const char* usage;
};

std::optional<ControlGroup> control_group_of(const std::string& line) {
    if (line.rfind("0::", 0) == 0) {
        return ControlGroup{"/sys/fs/cgroup" + line.substr(3), "memory.max", "memory.current"};
    }
    const size_t memory = line.find(":memory:");
    if (memory == std::string::npos) return std::nullopt;
    return ControlGroup{"/sys/fs/cgroup/memory" + line.substr(memory + 8), "memory.limit_in_bytes",
                        "memory.usage_in_bytes"};
}

// What is left below the limit of `group` and of every group above it.
uint64_t left_in(ControlGroup group) {
    uint64_t left = std::numeric_limits<uint64_t>::max();
    for (; group.folder != "/sys/fs" && group.folder != "/";
         group.folder = group.folder.parent_path()) {
        const auto limit = number_in(group.folder / group.limit);
        const auto usage = number_in(group.folder / group.usage);
        if (!limit || !usage) continue;
        left = std::min(left, *limit > *usage ? *limit - *usage : 0);
    }
    return left;
}

}  // namespace

uint64_t available_memory_bytes() {
    uint64_t available = proc_kib("/proc/meminfo", "MemAvailable").value_or(uint64_t{1} << 30);
    std::ifstream groups("/proc/self/cgroup");
    std::string line;
    while (std::getline(groups, line)) {
        if (const auto group = control_group_of(line)) {
            available = std::min(available, left_in(*group));
        }
    }
    return available;
}

uint64_t resident_memory_bytes() { return proc_kib("/proc/self/status", "VmRSS").value_or(0); }

uint64_t peak_resident_memory_bytes() { return proc_kib("/proc/self/status", "VmHWM").value_or(0); }

void release_pages(void* memory, size_t bytes) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void release_mapped_pages(std::span<const std::byte> bytes) {
    release_pages(const_cast<std::byte*>(bytes.data()), bytes.size());
}

}  // namespace nvllm
