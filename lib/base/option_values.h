// Option values as people write them: text to numbers, sizes and truth values, and back.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nvllm {

// from_chars takes no leading plus, people write one.
inline std::string_view without_plus(std::string_view text) {
    return text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
}

// A whole number in plain decimal, the whole text, within T. Empty otherwise.
template <std::integral T>
std::optional<T> parse_integer(std::string_view text) {
    text = without_plus(text);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// A finite decimal number, such as "0.7" or "1e-3". Empty for anything else.
std::optional<double> parse_number(std::string_view text);

// "true" or "false", also "1" and "0", "yes" and "no", "on" and "off"; any case.
std::optional<bool> parse_boolean(std::string_view text);

// A count or a number of bytes with an optional suffix. 1k, 1m, 1g, 1t and KB, MB, GB, TB are
// powers of 1000; 1K, 1M, 1G, 1T and KiB, MiB, GiB, TiB powers of 1024; B is one. A fraction is
// fine when the result is whole: 25.6k.
std::optional<uint64_t> parse_size(std::string_view text);

// As parse_size(), but a number without a unit below 2^20 counts GiB, as in vLLM: "4", "0.5".
std::optional<uint64_t> parse_gib_size(std::string_view text);
// Whether it is such a number, and not zero.
bool is_bare_gib(std::string_view text);

// The shortest texts that read back as the same value.
std::string format_value(double value);
std::string format_value(float value);
std::string format_value(bool value);
// With the largest binary suffix that divides it, from KiB on: "4GiB", "1000".
std::string format_bytes(uint64_t value);

// An option's name as it stands in flags: "max-num-seqs" for "max_num_seqs".
std::string with_dashes(std::string_view name);

// The nearest of `names` to `name` by edit distance (insertions, deletions, substitutions, swapped
// neighbours), if it is near enough to be meant.
template <typename Names>
std::optional<std::string> nearest_name(std::string_view name, const Names& names);

// How many of those edits make one word from the other.
size_t edit_distance(std::string_view a, std::string_view b);

template <typename Names>
std::optional<std::string> nearest_name(std::string_view name, const Names& names) {
    std::optional<std::string> nearest;
    size_t best = name.size() / 3 + 2;
    for (const auto& candidate : names) {
        const size_t distance = edit_distance(name, candidate);
        if (distance >= best) continue;
        best = distance;
        nearest = candidate;
    }
    return nearest;
}

}  // namespace nvllm
