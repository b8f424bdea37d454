// Comparing the keys of an object with those that are used or known to be harmless.
#include "lib/base/unused_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/utf8.h"

namespace nvllm {
namespace {

constexpr size_t kMaxNamed = 32;
constexpr size_t kLongestName = 64;

bool is_harmless(std::string_view key, const nlohmann::json& value,
                 std::span<const HarmlessKey> harmless) {
    if (value.is_null() || key.starts_with('_')) return true;
    return std::ranges::any_of(harmless, [&](const HarmlessKey& row) {
        return row.name == key &&
               (row.only_value.empty() || nlohmann::json::parse(row.only_value) == value);
    });
}

}  // namespace

std::vector<std::string> unused_keys(const nlohmann::json& object, const KeySet& used,
                                     std::span<const HarmlessKey> harmless) {
    std::vector<std::string> unused;
    for (const auto& [key, value] : object.items()) {
        if (!used.contains(key) && !is_harmless(key, value, harmless)) unused.push_back(key);
    }
    return unused;
}

std::string unused_keys_note(std::string_view file_name, std::span<const std::string> keys) {
    if (keys.empty()) return {};
    std::vector<std::string> names;
    for (const std::string& key : keys.first(std::min(keys.size(), kMaxNamed))) {
        names.push_back(key.size() <= kLongestName
                            ? key
                            : utf8::with_replacement(key.substr(0, kLongestName)) + "...");
    }
    if (keys.size() > kMaxNamed) {
        names.push_back(fmt::format("and {} more", keys.size() - kMaxNamed));
    }
    return fmt::format("{}: not used: {}", file_name, fmt::join(names, ", "));
}

}  // namespace nvllm
