// Reads the list that the build was given.
#include "kernels/cuda/runtime/architectures.h"

#include <algorithm>
#include <cstdlib>

namespace nvllm::cuda {
namespace {

bool is_covered(const std::string& entry, int capability) {
    char* end = nullptr;
    const auto compiled = static_cast<int>(std::strtol(entry.c_str(), &end, 10));
    const std::string rest = end;
    if (rest.starts_with("a")) return capability == compiled;
    const bool same_generation = capability / 10 == compiled / 10 && capability >= compiled;
    if (rest == "-real") return same_generation;
    return capability >= compiled;
}

}  // namespace

bool is_compiled_for(const std::string& list, int major, int minor) {
    size_t begin = 0;
    while (begin < list.size()) {
        const size_t end = std::min(list.find_first_of(",;", begin), list.size());
        if (is_covered(list.substr(begin, end - begin), 10 * major + minor)) return true;
        begin = end + 1;
    }
    return false;
}

bool is_compiled_for(int major, int minor) {
    return is_compiled_for(NVLLM_CUDA_ARCHITECTURES, major, minor);
}

std::string compiled_architectures() { return NVLLM_CUDA_ARCHITECTURES; }

}  // namespace nvllm::cuda
