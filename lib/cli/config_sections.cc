// Look-ups in the table of shared sections.
#include "lib/cli/config_sections.h"

#include <algorithm>

namespace nvllm {
namespace {

// Words are compared as if written with underscores.
bool equal_words(std::string_view a, std::string_view b) {
    const auto plain = [](char letter) { return letter == '-' ? '_' : letter; };
    return std::ranges::equal(a, b, {}, plain, plain);
}

bool contains_word(const std::vector<std::string>& words, std::string_view name) {
    return std::ranges::any_of(words,
                               [&](const std::string& word) { return equal_words(word, name); });
}

}  // namespace

bool ConfigSections::has_section(std::string_view section) const {
    return std::ranges::find(keys, section, &ConfigKey::section) != keys.end();
}

std::string_view ConfigSections::option_of(std::string_view section, std::string_view key,
                                           bool has_path) const {
    for (const ConfigKey& known : keys) {
        if (known.section != section || !equal_words(known.key, key)) continue;
        const bool is_alone = !has_path && !known.option_without_path.empty();
        return is_alone ? known.option_without_path : known.option;
    }
    return {};
}

bool ConfigSections::lists_option(std::string_view section, std::string_view name) const {
    const auto listed = options.find(section);
    return listed != options.end() && contains_word(listed->second, name);
}

bool ConfigSections::knows_option(std::string_view name) const {
    const auto is_listed = [&](const auto& listed) { return contains_word(listed.second, name); };
    return std::ranges::any_of(options, is_listed) ||
           std::ranges::find(other_options, name) != other_options.end() ||
           std::ranges::find(keys, name, &ConfigKey::option) != keys.end();
}

std::vector<std::string> ConfigSections::keys_of(std::string_view section) const {
    std::vector<std::string> names;
    for (const ConfigKey& known : keys) {
        if (known.section == section) names.push_back(known.key);
    }
    const auto listed = options.find(section);
    if (listed != options.end()) {
        names.insert(names.end(), listed->second.begin(), listed->second.end());
    }
    return names;
}

}  // namespace nvllm
