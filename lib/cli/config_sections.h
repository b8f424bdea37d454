// The sections of a configuration file that several programs share, and the option of each key.
//
// One file serves all programs: a key of a shared section is known to each of them, and changes
// nothing in a program that has no such option. The program hands its sections in
// (ProgramDescription::sections); without them only an option's own section is read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

struct ConfigKey {
    std::string section;  // "network"
    std::string key;      // "max_wait"
    std::string option;   // "queue-timeout"
    // The option that the key sets if its section has no key "path"; empty: the same one.
    std::string option_without_path = "";
};

struct ConfigSections {
    std::vector<ConfigKey> keys;
    // By section, options that may stand there under their own names, in programs without them too.
    std::map<std::string, std::vector<std::string>, std::less<>> options;
    // Options of some programs that an environment variable may set.
    std::vector<std::string> other_options;

    bool has_section(std::string_view section) const;
    // The option that a key of a shared section sets, whether the program has it or not; empty for
    // other keys. Keys may have dashes or underscores. `has_path`: the section has a key "path".
    std::string_view option_of(std::string_view section, std::string_view key, bool has_path) const;
    // Whether the name is one of `options` of the section.
    bool lists_option(std::string_view section, std::string_view name) const;
    // Whether some program has this option, as far as the sections say.
    bool knows_option(std::string_view name) const;
    // All keys and options of a shared section, for suggestions.
    std::vector<std::string> keys_of(std::string_view section) const;
};

}  // namespace nvllm
