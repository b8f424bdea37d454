// Parsing and printing of option values.
#include "lib/base/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace nvllm {
namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& letter : result) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return result;
}

// The factor of a suffix; empty when there is no such suffix.
std::optional<uint64_t> suffix_factor(std::string_view suffix) {
    if (suffix.empty() || lower(suffix) == "b") return 1;
    constexpr std::string_view kLetters = "kmgt";
    const std::string letters = lower(suffix);
    const size_t power = kLetters.find(letters[0]);
    if (power == std::string_view::npos) return std::nullopt;
    const std::string rest = letters.substr(1);
    const bool is_upper = suffix[0] >= 'A' && suffix[0] <= 'Z';
    if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
    const bool is_binary = rest == "ib" || (rest.empty() && is_upper);
    uint64_t factor = 1;
    for (size_t step = 0; step <= power; ++step) factor *= is_binary ? 1024 : 1000;
    return factor;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
    text = without_plus(text);
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (!std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
    const std::string word = lower(text);
    if (word == "true" || word == "1" || word == "yes" || word == "on") return true;
    if (word == "false" || word == "0" || word == "no" || word == "off") return false;
    return std::nullopt;
}

std::optional<uint64_t> parse_size(std::string_view text) {
    const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::string_view digits = text.substr(0, end);
    const std::optional<uint64_t> factor = suffix_factor(text.substr(end));
    if (digits.empty() || !factor) return std::nullopt;
    if (const auto whole = parse_integer<uint64_t>(digits)) {
        if (*whole > UINT64_MAX / *factor) return std::nullopt;
        return *whole * *factor;
    }
    const auto number = parse_number(digits);
    if (!number) return std::nullopt;
    // 25.6 * 1000 is a hair off 25600 in binary.
    const double scaled = *number * static_cast<double>(*factor);
    const double whole = std::round(scaled);
    if (whole > 0x1p53 || std::fabs(scaled - whole) > 1e-9 * whole) return std::nullopt;
    return static_cast<uint64_t>(whole);
}

bool is_bare_gib(std::string_view text) {
    constexpr double kMinBytes = 0x1p20;
    const auto number = parse_number(text);
    return number && *number > 0.0 && *number < kMinBytes;
}

std::optional<uint64_t> parse_gib_size(std::string_view text) {
    if (!is_bare_gib(text)) return parse_size(text);
    return static_cast<uint64_t>(*parse_number(text) * 0x1p30);
}

std::string with_dashes(std::string_view name) {
    std::string result(name);
    std::replace(result.begin(), result.end(), '_', '-');
    return result;
}

std::string format_value(double value) { return fmt::format("{}", value); }
std::string format_value(float value) { return fmt::format("{}", value); }
std::string format_value(bool value) { return value ? "true" : "false"; }

std::string format_bytes(uint64_t value) {
    constexpr std::array kSuffixes = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t power = 0;
    while (value != 0 && value % 1024 == 0 && power + 1 < kSuffixes.size()) {
        value /= 1024;
        ++power;
    }
    return std::to_string(value) + kSuffixes[power];
}

// Optimal string alignment: each row of the table from the two before it.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
    std::iota(above.begin(), above.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
            const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, above);
        std::swap(above, row);
    }
    return above[b.size()];
}

}  // namespace nvllm
