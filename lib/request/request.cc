// The words for how a continuation ended.
#include "lib/request/request.h"

#include <array>

namespace nvllm {

const char* finish_reason_name(FinishReason reason) {
    static constexpr std::array<const char*, 4> kNames = {"stop", "length", "abort", "error"};
    return kNames[static_cast<size_t>(reason)];
}

}  // namespace nvllm
