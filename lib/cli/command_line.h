// A program's command line from its option lists: parsing, the order of all settings, and what a
// program says instead of running.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cli/options.h"
#include "lib/cli/program_text.h"

namespace nvllm {

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
    std::string help_topic;  // empty: all of it
    bool wants_version = false;
    std::optional<std::string> completion_shell;
    bool wants_manual = false;
    bool wants_option_list = false;
    bool wants_config_printed = false;
    bool wants_config_checked = false;

    // Whether the program has to describe itself, whatever its settings are.
    bool is_about_program() const {
        return wants_help || wants_version || completion_shell || wants_manual || wants_option_list;
    }
};

// Splits the arguments (without the program's own name) by the options. Those of general_options()
// belong to every program. Every option takes "--name value" and "--name=value", with any value:
// one that begins with a dash, or an empty one. Booleans take no value but "=true" or "=false";
// "--no-name" is false. "--" ends the options. Underscores in a flag are dashes. Flags of other
// programs (OptionSet::add_foreign) are replaced, dropped with a note, or refused. Nothing is set
// yet. Throws usage for unknown flags (with the nearest known one), missing values, arguments that
// no option takes, and two values of what is named once.
ParsedCommandLine parse_command_line(std::span<const std::string> arguments, OptionSet& options);

// Sets the options: flags over environment (NVLLM_*) over the configuration file (--config or
// NVLLM_CONFIG) over defaults. Throws bad_config when a secret is what print_as_yaml() shows in its
// place.
void resolve_settings(OptionSet& options, const ParsedCommandLine& parsed,
                      const EnvironmentLookup& environment);

// Throws when options contradict each other, or name what is not there.
using SettingsCheck = std::function<void()>;

// All of it for main(): parses, and either sets the options and checks them, or gives the text that
// was asked for instead (--help, --print-config ...), to be printed on stdout with exit code 0.
// With --check-config whatever is wrong, but for usage, is bad_config. Notes that `check` did not
// take from the options go to standard error.
std::optional<std::string> read_command_line(const ProgramDescription& program, OptionSet& options,
                                             int argc, const char* const* argv,
                                             const SettingsCheck& check = {});

// The description of the program that was asked for. REQUIRES: is_about_program(). Throws usage as
// help_on_topic() and completion_script() do.
std::string text_about(const DescribedProgram& program, const ParsedCommandLine& parsed);

}  // namespace nvllm
