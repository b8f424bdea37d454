// Looks for nvllm-worker, so that an installation can be moved.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <system_error>
#include <vector>

#include "kernels/error.h"
#include "lib/execute/remote_executor.h"

namespace nvllm {
namespace {

// Where the library lies that this function is part of; a program that has it built in is itself.
std::filesystem::path library_folder() {
    static const char here = 0;
    Dl_info info{};
    if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
    std::error_code error;
    return std::filesystem::weakly_canonical(info.dli_fname, error).parent_path();
}

std::filesystem::path program_folder() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

std::filesystem::path find_worker_program() {
    const std::array places = {
        library_folder() / NVLLM_WORKER_FROM_LIBRARY,  // <prefix>/lib
        library_folder() / NVLLM_WORKER_FROM_BUILD,    // <build>/lib, <build>/bin
        program_folder() / NVLLM_WORKER_FROM_BUILD,    // <prefix>/bin, <build>/bin
    };
    for (const std::filesystem::path& place : places) {
        std::error_code error;
        if (std::filesystem::is_regular_file(place, error)) return place.lexically_normal();
    }
    throw Error(ErrorKind::not_found,
                fmt::format("the program nvllm-worker is not at {}: install it, or use --isolation "
                            "thread",
                            places.back().lexically_normal().string()));
}

}  // namespace nvllm
