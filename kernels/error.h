// The one exception type of the project, and the check for our own mistakes.
//
// The world's faults (bad file, wrong flag, no memory) are thrown as Error and caught once per
// program. Our own mistakes are NVLLM_CHECK: input can never reach them. A request's faults are
// Result<T> (lib/base/result.h) and end that request only.
#pragma once

#include <stdexcept>
#include <string>

namespace nvllm {

// What went wrong, in the classes that exit quantized values and HTTP statuses distinguish
// (lib/base/error_kinds.h).
enum class ErrorKind {
    usage,          // wrong flags or arguments
    bad_data,       // a file or request holds something invalid
    not_found,      // a file, model or name that does not exist
    unavailable,    // a device, library or service that is missing
    internal,       // our own mistake
    cannot_create,  // an output that cannot be made
    io,             // reading or writing failed
    try_again,      // overloaded for now
    does_not_fit,   // too little memory, or not permitted
    bad_config,     // a configuration file or value
};

class Error : public std::runtime_error {
  public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
    ErrorKind kind() const { return kind_; }

  private:
    ErrorKind kind_;
};

// A device is of no more use to this process: whatever it is asked for next fails as well. Another
// process may find it well.
class DeviceLost : public Error {
  public:
    explicit DeviceLost(const std::string& message) : Error(ErrorKind::unavailable, message) {}
};

// Throws Error{internal}; kept out of line so that checks stay small in hot code.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace nvllm

// For conditions that only a mistake in this project can break.
#define NVLLM_CHECK(condition, message)                                       \
    do {                                                                      \
        if (!(condition)) [[unlikely]]                                        \
            ::nvllm::check_failed(__FILE__, __LINE__, #condition, (message)); \
    } while (false)
