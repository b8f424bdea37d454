// Rounding and grouping of digits.
#include "lib/base/units.h"

#include <fmt/format.h>

namespace nvllm {

std::string describe_bytes(uint64_t bytes) {
    if (bytes < 1024) return fmt::format("{} B", bytes);
    if (bytes < (uint64_t{1} << 20)) {
        return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024.0);
    }
    if (bytes < (uint64_t{1} << 30)) {
        return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0);
    }
    return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / 1073741824.0);
}

std::string with_separators(int64_t value) {
    std::string digits = std::to_string(value);
    const size_t first = value < 0 ? 1 : 0;
    for (size_t place = digits.size(); place > first + 3;) {
        place -= 3;
        digits.insert(place, ",");
    }
    return digits;
}

std::string describe_count(int64_t value) {
    const auto number = static_cast<double>(value);
    if (value >= 1'000'000'000'000) return fmt::format("{:.2f} trillion", number / 1e12);
    if (value >= 1'000'000'000) return fmt::format("{:.2f} billion", number / 1e9);
    if (value >= 1'000'000) return fmt::format("{:.2f} million", number / 1e6);
    return with_separators(value);
}

}  // namespace nvllm
