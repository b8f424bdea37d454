// Reading a time, and the clock.
#include "lib/jinja/template_time.h"

#include <cstdlib>

namespace nvllm {

std::optional<std::tm> parse_time(const std::string& text) {
    std::tm time{};
    const char* end = ::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
    if (end == nullptr) {
        time = {};
        end = ::strptime(text.c_str(), "%Y-%m-%d", &time);
    }
    if (end == nullptr || *end != '\0') return std::nullopt;
    // Fills in the day of the week; a 31st of February comes back as another day.
    std::tm filled = time;
    ::timegm(&filled);
    if (filled.tm_mday != time.tm_mday || filled.tm_mon != time.tm_mon) return std::nullopt;
    return filled;
}

Result<std::tm> template_now() {
    const char* given = std::getenv("NVLLM_NOW");
    if (given != nullptr && *given != '\0') {
        if (const auto time = parse_time(given)) return *time;
        return Fault{ErrorKind::bad_config, std::string("NVLLM_NOW: '") + given +
                                                "' is no time such as 2026-01-02 03:04:05"};
    }
    const std::time_t seconds = std::time(nullptr);
    std::tm now{};
    localtime_r(&seconds, &now);
    return now;
}

}  // namespace nvllm
