// The time that chat templates see.
#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "lib/base/result.h"

namespace nvllm {

// "2026-01-02 03:04:05" or "2026-01-02"; empty when it is neither or no such day.
std::optional<std::tm> parse_time(const std::string& text);

// The time in the environment variable NVLLM_NOW, so that renderings of one template can be
// compared; the local time where it is unset or empty. A fault when it is no time.
Result<std::tm> template_now();

}  // namespace nvllm
