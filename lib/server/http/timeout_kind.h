// What ran out of time, for metrics.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvllm::server {

enum class TimeoutKind : uint8_t { header, body, idle, write, queue, request, step };
inline constexpr size_t kNumTimeoutKinds = 7;

}  // namespace nvllm::server
