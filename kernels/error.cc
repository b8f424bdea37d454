// Reports a broken invariant.
#include "kernels/error.h"

namespace nvllm {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
    throw Error(ErrorKind::internal, std::string("internal error at ") + file + ":" +
                                         std::to_string(line) + ": " + condition +
                                         " is false: " + message);
}

}  // namespace nvllm
