// Quoting of foreign text.
#include "lib/checkpoint/quoted.h"

#include <fmt/format.h>

namespace nvllm {

std::string quoted_for_message(std::string_view text) {
    constexpr size_t kShown = 80;
    const bool cut = text.size() > kShown;
    std::string quoted = "\"";
    for (const char c : text.substr(0, kShown)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte >= 0x7f) {
            quoted += fmt::format("\\x{:02x}", byte);
        } else {
            quoted += c;
        }
    }
    return quoted + (cut ? "...\"" : "\"");
}

}  // namespace nvllm
