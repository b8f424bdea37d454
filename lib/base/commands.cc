// The choice of a sub-command.
#include "lib/base/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/main_guard.h"
#include "lib/base/option_values.h"

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

[[noreturn]] void throw_unknown(std::span<const Command> commands, const std::string& name) {
    const std::vector<std::string> names = names_of(commands);
    const auto nearest = nearest_name(name, names);
    throw Error(ErrorKind::usage, fmt::format("unknown command '{}'{}; there are: {}", name,
                                              nearest ? "; did you mean " + *nearest + "?" : "",
                                              fmt::join(names, ", ")));
}

}  // namespace

int run_command(const ProgramDescription& program, std::span<const Command> commands, int argc,
                const char* const* argv, const std::string& fallback) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == "--help" || first == "-h") {
        write_output(commands_help_text(program, commands));
        return 0;
    }
    if (first == "--version") {
        write_output(program.name + " " + program.version + "\n");
        return 0;
    }
    if (!first.empty() && first[0] != '-') {
        const Command* command = find(commands, first);
        if (command == nullptr) throw_unknown(commands, first);
        return command->run(argc - 1, argv + 1);
    }
    if (const Command* command = find(commands, fallback)) return command->run(argc, argv);
    throw Error(ErrorKind::usage,
                fmt::format("a command is missing; there are: {} (--help says what they do)",
                            fmt::join(names_of(commands), ", ")));
}

ProgramDescription describe_command(const ProgramDescription& program, const Command& command,
                                    std::string examples) {
    return {.name = program.name + " " + command.name,
            .version = program.version,
            .summary = command.summary,
            .examples = std::move(examples)};
}

std::string commands_help_text(const ProgramDescription& program,
                               std::span<const Command> commands) {
    size_t width = 0;
    for (const Command& command : commands) width = std::max(width, command.name.size());
    std::string text = fmt::format("Usage: {} COMMAND [OPTIONS]\n\n{}\n\nCommands:\n", program.name,
                                   program.summary);
    for (const Command& command : commands) {
        text += fmt::format("  {:<{}}  {}\n", command.name, width, command.summary);
    }
    text += fmt::format("\n'{} COMMAND --help' lists a command's options.\n", program.name);
    if (!program.examples.empty()) text += "\nExamples:\n" + program.examples;
    return text;
}

}  // namespace nvllm
