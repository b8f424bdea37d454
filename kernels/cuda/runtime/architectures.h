// Which GPUs the module was compiled for.
#pragma once

#include <string>

namespace nvllm::cuda {

// Whether code for this compute capability is in `list`, which is written as CMake has it, or with
// commas instead of semicolons: "80" is code for 8.x and text that later ones can compile,
// "80-real" the former alone, "80-virtual" the latter, and "90a" is for 9.0 alone.
bool is_compiled_for(const std::string& list, int major, int minor);

// The same for the list of this build.
bool is_compiled_for(int major, int minor);
std::string compiled_architectures();

}  // namespace nvllm::cuda
