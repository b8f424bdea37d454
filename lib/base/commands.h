// Programs made of sub-commands: which one is meant, and what the program says about all of them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "lib/base/command_line.h"

namespace nvllm {

// "nvllm-inspect model ...": its options are its own, read with read_command_line().
struct Command {
    std::string name;     // "model"
    std::string summary;  // one line
    // Gets the arguments from the command's name on, as main() gets them from the program's; its
    // exit code.
    std::function<int(int argc, const char* const* argv)> run;
};

// Runs the command that the first argument names. `fallback`, when not empty, names the one that
// runs when the first argument is missing or a flag; without it that is an error. --help and
// --version before a command are about the program. Throws usage, with the nearest known name, for
// an unknown command.
int run_command(const ProgramDescription& program, std::span<const Command> commands, int argc,
                const char* const* argv, const std::string& fallback = "");

// A command's own description: its name is the program's and the command's.
ProgramDescription describe_command(const ProgramDescription& program, const Command& command,
                                    std::string examples = "");

// What the program says about its commands.
std::string commands_help_text(const ProgramDescription& program,
                               std::span<const Command> commands);

}  // namespace nvllm
