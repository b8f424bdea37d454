// The choice of a sub-command.
#include "lib/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/option_values.h"
#include "lib/cli/main_guard.h"

namespace nvllm {
namespace {

std::vector<std::string> names_of(std::span<const Command> commands) {
    std::vector<std::string> names;
    for (const Command& command : commands) names.push_back(command.name);
    return names;
}

const Command* find(std::span<const Command> commands, const std::string& name) {
    const auto found = std::ranges::find(commands, name, &Command::name);
    return found == commands.end() ? nullptr : &*found;
}

ProgramDescription describe(const ProgramDescription& program, const Command& command) {
    return {.name = program.name + " " + command.name,
            .version = program.version,
            .summary = command.summary,
            .examples = command.examples,
            .sections = program.sections};
}

[[noreturn]] void throw_unknown(std::span<const Command> commands, const std::string& name) {
    const std::vector<std::string> names = names_of(commands);
    const auto nearest = nearest_name(name, names);
    throw Error(ErrorKind::usage, fmt::format("unknown command '{}'{}; there are: {}", name,
                                              nearest ? "; did you mean " + *nearest + "?" : "",
                                              fmt::join(names, ", ")));
}

// Before a command, these are about the program as a whole.
bool says_what_it_is(const std::string& argument) {
    const std::string flag = argument.substr(0, argument.find('='));
    return flag == "--help" || flag == "-h" || flag == "--version" || flag == "--completion" ||
           flag == "--man" || flag == "--list-options";
}

}  // namespace

std::vector<std::string> Invocation::arguments() const {
    std::vector<std::string> all = {description.name};
    for (int i = 1; i < argc; ++i) all.emplace_back(argv[i]);
    return all;
}

bool answered(const Invocation& invocation, OptionSet& options, const SettingsCheck& check) {
    if (invocation.described != nullptr) {
        *invocation.described = describe_program(invocation.description, options);
        return true;
    }
    const auto text =
        read_command_line(invocation.description, options, invocation.argc, invocation.argv, check);
    if (!text) return false;
    write_output(*text);
    return true;
}

DescribedProgram describe_commands(const ProgramDescription& program,
                                   std::span<const Command> commands, const std::string& fallback) {
    DescribedProgram described{program, {}, {}, fallback};
    for (const Command& command : commands) {
        DescribedProgram& added = described.commands.emplace_back();
        added.description = describe(program, command);
        command.run({.description = added.description, .described = &added});
    }
    return described;
}

int run_command(const ProgramDescription& program, std::span<const Command> commands, int argc,
                const char* const* argv, const std::string& fallback) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (!first.empty() && first[0] != '-') {
        const Command* command = find(commands, first);
        if (command == nullptr) throw_unknown(commands, first);
        return command->run({describe(program, *command), argc - 1, argv + 1});
    }
    if (says_what_it_is(first)) {
        OptionSet none;
        const auto parsed =
            parse_command_line(std::vector<std::string>(argv + 1, argv + argc), none);
        write_output(text_about(describe_commands(program, commands, fallback), parsed));
        return 0;
    }
    if (const Command* command = find(commands, fallback)) {
        return command->run({describe(program, *command), argc, argv});
    }
    throw Error(ErrorKind::usage,
                fmt::format("a command is missing; there are: {} (--help says what they do)",
                            fmt::join(names_of(commands), ", ")));
}

}  // namespace nvllm
