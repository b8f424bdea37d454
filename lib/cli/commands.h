// Programs made of sub-commands: which one is meant, and what the program says about all of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/cli/command_line.h"

namespace nvllm {

// How a command was called, and its description.
struct Invocation {
    ProgramDescription description;
    int argc = 0;
    // From the command's name on, as main() gets them from the program's.
    const char* const* argv = nullptr;

    // The command's full name, then what it was given.
    std::vector<std::string> arguments() const;

    // If set, the command only describes itself: answered() fills it in.
    DescribedProgram* described = nullptr;
};

// "nvllm-inspect model ...": its options are its own, read with answered().
struct Command {
    std::string name;                           // "model"
    std::string summary;                        // one line
    std::function<int(const Invocation&)> run;  // its exit code
    std::string examples = "";                  // at the end of its help
};

// Reads the options and checks them; true when --help or the like was answered and nothing is left
// to do. Throws as read_command_line() does. A command calls it before it does anything else.
bool answered(const Invocation& invocation, OptionSet& options, const SettingsCheck& check = {});

// Runs the command that the first argument names. `fallback`, when not empty, names the one that
// runs when the first argument is missing or a flag; without it that is an error. --help and the
// like before a command are about the program. Throws usage, with the nearest known name, for an
// unknown command.
int run_command(const ProgramDescription& program, std::span<const Command> commands, int argc,
                const char* const* argv, const std::string& fallback = "");

// The program with all its commands and their options.
DescribedProgram describe_commands(const ProgramDescription& program,
                                   std::span<const Command> commands,
                                   const std::string& fallback = "");

}  // namespace nvllm
