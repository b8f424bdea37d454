// Programs made of sub-commands: which one is meant, and what the program says about all of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/command_line.h"

namespace nvllm {

// How a command was called, and as what it speaks of itself.
struct Invocation {
    ProgramDescription description;
    int argc = 0;
    // From the command's name on, as main() gets them from the program's.
    const char* const* argv = nullptr;

    // The command's full name, then what it was given.
    std::vector<std::string> arguments() const;
};

// "nvllm-inspect model ...": its options are its own, read with answered().
struct Command {
    std::string name;                           // "model"
    std::string summary;                        // one line
    std::function<int(const Invocation&)> run;  // its exit code
    std::string examples = "";                  // at the end of its help
};

// Reads the options; true when --help or --version was answered and nothing is left to do. Throws
// as read_command_line() does.
bool answered(const Invocation& invocation, OptionSet& options);

// Runs the command that the first argument names. `fallback`, when not empty, names the one that
// runs when the first argument is missing or a flag; without it that is an error. --help and
// --version before a command are about the program. Throws usage, with the nearest known name, for
// an unknown command.
int run_command(const ProgramDescription& program, std::span<const Command> commands, int argc,
                const char* const* argv, const std::string& fallback = "");

// What the program says about its commands.
std::string commands_help_text(const ProgramDescription& program,
                               std::span<const Command> commands);

}  // namespace nvllm
