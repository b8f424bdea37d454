// Which keys of a JSON object a reader passes over, so that none which changes a result is skipped
// without a word.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// Keys by name, as a reader asked for them.
using KeySet = std::set<std::string, std::less<>>;

// A key that changes no result: whatever its value, or only with the value written here as JSON
// ("1", "false", "[]").
struct HarmlessKey {
    std::string_view name;
    std::string_view only_value = {};  // empty: any
};

// The keys of `object`, ascending, that are neither used nor harmless. A key whose value is null
// says nothing, and neither does one that begins with "_".
std::vector<std::string> unused_keys(const nlohmann::json& object, const KeySet& used,
                                     std::span<const HarmlessKey> harmless);

// "FILE: not used: a, b"; empty when `keys` is.
std::string unused_keys_note(std::string_view file_name, std::span<const std::string> keys);

}  // namespace nvllm
