// Reads /proc and the control group files.
#include "lib/system/memory_info.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace nvllm {
namespace {

constexpr uint64_t kKib = 1024;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

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

// The files of the memory controller, by version.
struct MemoryFiles {
    const char* limit;
    const char* usage;
    // In memory.stat: pages of files in the group and below it, by how recently they were used.
    std::array<const char*, 2> file_pages;
};
constexpr MemoryFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr MemoryFiles kVersion2{"memory.max", "memory.current", {"inactive_file", "active_file"}};

// The sum of the fields called so ("name 123") in a group's memory.stat; 0 without the file.
uint64_t stat_bytes(const std::filesystem::path& file, const std::array<const char*, 2>& names) {
    std::ifstream stream(file);
    std::string name;
    uint64_t value = 0;
    uint64_t total = 0;
    while (stream >> name >> value) {
        if (std::ranges::find(names, name) != names.end()) total += value;
    }
    return total;
}

uint64_t left_in(const ControlGroup& group) {
    const MemoryFiles& files = group.version == 2 ? kVersion2 : kVersion1;
    const auto limit = number_in(group.folder / files.limit);
    const auto usage = number_in(group.folder / files.usage);
    if (!limit || !usage) return kNoLimit;
    const uint64_t cached = stat_bytes(group.folder / "memory.stat", files.file_pages);
    const uint64_t used = *usage - std::min(*usage, cached);
    return *limit - std::min(*limit, used);
}

// What is left of the address space that ulimit -v allows.
uint64_t left_of_address_space() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
    const uint64_t used = proc_kib("/proc/self/status", "VmSize").value_or(0);
    return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

}  // namespace

uint64_t left_in_control_groups(std::span<const ControlGroup> groups) {
    uint64_t left = kNoLimit;
    for (const ControlGroup& group : groups) left = std::min(left, left_in(group));
    return left;
}

uint64_t available_memory_bytes() {
    const uint64_t available =
        proc_kib("/proc/meminfo", "MemAvailable").value_or(uint64_t{1} << 30);
    return std::min(
        {available, left_in_control_groups(control_groups("memory")), left_of_address_space()});
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
