// A program's command line from its option lists: parsing, help, completion, and the order of all
// settings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/options.h"

namespace nvllm {

// What help says besides the options.
struct ProgramDescription {
    std::string name;      // "nvllm-run"
    std::string version;   // "0.1.0"
    std::string summary;   // a sentence or two
    std::string examples;  // printed as they are, at the end
};

// What the command line gave to one option: one text for each time it was named.
struct GivenOption {
    BoundOption* option = nullptr;
    std::string flag;  // as in messages: "--top-k", or "MODEL" for a positional argument
    std::vector<std::string> texts;
};

struct ParsedCommandLine {
    std::vector<GivenOption> options;
    std::optional<std::string> config_file;
    bool wants_help = false;
    bool wants_version = false;
};

// Splits the arguments (without the program's own name) by the options. --config FILE, --help (-h)
// and --version belong to every program. Every option takes "--name value" and "--name=value", with
// any value: one that begins with a dash, or an empty one. Booleans take no value but "=true" or
// "=false"; "--no-name" is false. "--" ends the options. Nothing is set yet. Throws usage for
// unknown flags (with the nearest known one), missing values and arguments that nobody takes.
ParsedCommandLine parse_command_line(std::span<const std::string> arguments, OptionSet& options);

// Sets the options: flags over environment (NVLLM_*) over the configuration file (--config or
// NVLLM_CONFIG) over defaults.
void resolve_settings(OptionSet& options, const ParsedCommandLine& parsed,
                      const EnvironmentLookup& environment);

// All of it for main(): parses, and either sets the options, or gives the text that --help or
// --version asks for, to be printed on stdout with exit code 0.
std::optional<std::string> read_command_line(const ProgramDescription& program, OptionSet& options,
                                             int argc, const char* const* argv);

// Wrapped to 80 columns, grouped under the options' headings.
std::string help_text(const ProgramDescription& program, const OptionSet& options);

// A script that completes the program's flags and their choices in bash.
std::string bash_completion(const ProgramDescription& program, const OptionSet& options);

}  // namespace nvllm
