// Foreign text inside messages.
#pragma once

#include <string>
#include <string_view>

namespace nvllm {

// `text` in quotes, cut to 80 bytes, with everything but printable ASCII as \xNN.
std::string quoted_for_message(std::string_view text);

}  // namespace nvllm
