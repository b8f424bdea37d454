// Where in a kernel's source something happens, and what is thrown when a kernel breaks a rule
// there.
#pragma once

#include <source_location>
#include <string>

#include "kernels/error.h"

namespace nvllm::gpu::emulation {

// A place in the source. As a default argument, here() is the caller's place.
struct Site {
    const char* file = "";
    int line = 0;
    int column = 0;

    bool operator==(const Site& other) const;
    // "norm.cu:41"
    std::string describe() const;

#ifdef __clang__
    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                               int column = __builtin_COLUMN()) {
        return {file, line, column};
    }
#else
    static constexpr Site here(std::source_location at = std::source_location::current()) {
        return {at.file_name(), static_cast<int>(at.line()), static_cast<int>(at.column())};
    }
#endif
};

// A kernel broke a rule of the execution model. launch() throws it; what the kernel's threads did
// by then has happened.
class Fault : public Error {
  public:
    explicit Fault(const std::string& message) : Error(ErrorKind::internal, message) {}
};

}  // namespace nvllm::gpu::emulation
