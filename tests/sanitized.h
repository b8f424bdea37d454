// Whether this build has a sanitizer: everything is some ten times slower then. What is looked for
// there are wrong accesses rather than wrong answers, so tests that repeat themselves may do so
// less often.
#pragma once

#include <cstdint>
#include <vector>

namespace nvllm::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// What to go through: all, or the few that a sanitizer gets.
inline std::vector<int64_t> all_or_few(std::vector<int64_t> all, std::vector<int64_t> few) {
    return kSanitized ? few : all;
}

}  // namespace nvllm::test
