// Settings from a YAML file.
#pragma once

#include <filesystem>
#include <string>

#include "lib/cli/options.h"

namespace nvllm {

// Sets every option the file names. Keys are option names or aliases, with dashes or underscores; a
// key that is the section of some options may hold a mapping of them. The set's shared sections
// (config_sections.h) have keys of their own, which change nothing if there is no such option. A
// null leaves the default. JSON is fine too. Throws not_found when there is no such file, and
// bad_config with file, line, key, value and range for: keys that are unknown (with the nearest
// known one), that come twice under any spelling, or whose values do not fit.
void apply_config_file(OptionSet& options, const std::filesystem::path& path);

// The same from text; `source_name` stands for the file in messages and origins.
void apply_config_text(OptionSet& options, const std::string& text, const std::string& source_name);

}  // namespace nvllm
