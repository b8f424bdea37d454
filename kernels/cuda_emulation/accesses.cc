// Hands accesses to the race detector and the counters, and finds the source line of an access.
#include "kernels/cuda_emulation/accesses.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/cuda_emulation/counters.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu::emulation {

namespace {

bool hooks_present = false;

// The place of an address of a program: of the functions inlined there the innermost in a kernel
// file, else the innermost. Empty when the program has no line tables.
std::string line_of(const std::string& program, uintptr_t offset) {
    char command[512];
    std::snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%zx 2>/dev/null",
                  program.c_str(), offset);
    FILE* pipe = popen(command, "r");
    if (pipe == nullptr) return {};
    std::string chosen;
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
        const std::string place(line, std::strcspn(line, " \n"));
        const bool in_kernel = place.find(".cu:") != std::string::npos;
        if (chosen.empty() || (in_kernel && chosen.find(".cu:") == std::string::npos))
            chosen = place;
    }
    pclose(pipe);
    return chosen;
}

}  // namespace

void announce_access_hooks() { hooks_present = true; }

bool has_access_hooks() { return hooks_present; }

void note_access(const Thread& thread, const void* address, size_t bytes, Access access,
                 Origin origin) {
    if (races::watching()) races::check(thread, address, bytes, access, origin);
    if (counting()) count_access(thread, address, bytes, access, origin);
}

std::string describe_origin(Origin origin) {
    Dl_info found{};
    if (dladdr(origin, &found) == 0 || found.dli_fname == nullptr) return "an unknown place";
    // The return address lies behind the call.
    const auto offset =
        reinterpret_cast<uintptr_t>(origin) - reinterpret_cast<uintptr_t>(found.dli_fbase) - 1;
    const std::string line = line_of(found.dli_fname, offset);
    if (!line.empty() && line[0] != '?') return line.substr(line.rfind('/') + 1);
    return found.dli_sname ? found.dli_sname : "an unknown place";
}

}  // namespace nvllm::gpu::emulation
