// The sections of a configuration file that all programs read, and which option each key sets.
//
// One file serves all programs: a key of these sections is known everywhere, and does nothing in a
// program that has no such option.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

struct ConfigKey {
    std::string_view section;  // "scheduler"
    std::string_view key;      // "batch_size"
    std::string_view option;   // "max-num-seqs"
};

std::span<const ConfigKey> config_keys();

// Options of the server, which may stand in the section "api" under their own names: a file with
// them is for other programs as well.
std::span<const std::string_view> server_option_names();
bool is_server_option(std::string_view name);

bool is_shared_section(std::string_view section);

// The option that a key of a shared section sets, whether a program has it or not; empty for other
// keys. Keys may have dashes or underscores. `has_path` is of the section "model":
// without a path, the name is what is looked up.
std::string_view option_of_key(std::string_view section, std::string_view key, bool has_path);

// All keys of a shared section, for suggestions.
std::vector<std::string> keys_of_section(std::string_view section);

}  // namespace nvllm
