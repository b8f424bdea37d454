// What a program says about its options: --help, and completion for bash.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/commands.h"

namespace nvllm {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 28;

// The text broken at spaces so that no line, after `indent` spaces, passes the width; the first
// line is not indented.
std::string wrapped(const std::string& text, size_t indent) {
    std::string result, line;
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        begin = end + 1;
        if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
            result += line + "\n" + std::string(indent, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return result + line + "\n";
}

std::string shown_value_name(const OptionField& field) {
    if (!field.value_name.empty()) return field.value_name;
    switch (field.kind) {
        case OptionKind::boolean:
            return "";
        case OptionKind::integer:
            return "N";
        case OptionKind::number:
            return "X";
        case OptionKind::size:
            return "SIZE";
        case OptionKind::choice:
            return "WORD";
        case OptionKind::text:
            return "TEXT";
    }
    return "";
}

// "  -n, --max-tokens, --predict N"
std::string flags_of(const OptionField& field) {
    std::string flags = field.short_name ? fmt::format("  -{}, ", *field.short_name) : "      ";
    const bool is_boolean = field.kind == OptionKind::boolean && !field.is_list;
    flags += is_boolean ? "--[no-]" + field.name : "--" + field.name;
    for (const std::string& alias : field.aliases) flags += ", --" + alias;
    const std::string value = shown_value_name(field);
    return flags + (value.empty() ? "" : " " + value);
}

std::string explanation(const BoundOption& option) {
    const OptionField& field = option.field();
    std::vector<std::string> notes;
    if (!field.choices.empty())
        notes.push_back(fmt::format("one of {}", fmt::join(field.choices, ", ")));
    if (!field.range_text.empty()) notes.push_back(field.range_text);
    if (field.is_list) notes.push_back("may be repeated");
    if (!option.default_text().empty()) notes.push_back("default: " + option.default_text());
    return field.help + (notes.empty() ? "" : fmt::format(" ({})", fmt::join(notes, "; ")));
}

std::string entry_text(const std::string& flags, const std::string& explanation) {
    std::string text = flags;
    if (flags.size() + 2 > kHelpColumn)
        text += "\n" + std::string(kHelpColumn, ' ');
    else
        text += std::string(kHelpColumn - flags.size(), ' ');
    return text + wrapped(explanation, kHelpColumn);
}

// Headings in the order of their first option.
std::vector<std::string> groups_of(const OptionSet& options) {
    std::vector<std::string> groups;
    for (const BoundOption& option : options.all()) {
        const std::string& group = option.field().group;
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
    return groups;
}

std::string usage_line(const ProgramDescription& program, const OptionSet& options) {
    std::string line = "Usage: " + program.name + " [OPTIONS]";
    for (const BoundOption& option : options.all()) {
        const OptionField& field = option.field();
        if (field.is_positional)
            line += fmt::format(" [{}]{}", shown_value_name(field), field.is_list ? "..." : "");
    }
    return line + "\n\n";
}

std::vector<std::string> completed_flags(const OptionField& field) {
    std::vector<std::string> flags = {"--" + field.name};
    if (field.kind == OptionKind::boolean && !field.is_list) flags.push_back("--no-" + field.name);
    for (const std::string& alias : field.aliases) flags.push_back("--" + alias);
    if (field.short_name) flags.push_back(std::string("-") + *field.short_name);
    return flags;
}

}  // namespace

std::string help_text(const ProgramDescription& program, const OptionSet& options) {
    std::string text = usage_line(program, options) + wrapped(program.summary, 0);
    for (const std::string& group : groups_of(options)) {
        text += fmt::format("\n{}:\n", group);
        for (const BoundOption& option : options.all()) {
            if (option.field().group == group)
                text += entry_text(flags_of(option.field()), explanation(option));
        }
    }
    text += "\nGeneral:\n" +
            entry_text("      --config FILE", "Read options from a YAML file, by their names.") +
            entry_text("  -h, --help", "Print this help.") +
            entry_text("      --version", "Print the version.");
    text += '\n';
    text += wrapped(
        "Options come from flags, then from the environment (NVLLM_TOP_K for --top-k), then from "
        "the file, then from the defaults. Sizes take k, m, g (powers of 1000), K, M, G and KiB, "
        "MiB, GiB (powers of 1024).",
        0);
    if (!program.examples.empty()) text += "\nExamples:\n" + program.examples;
    return text;
}

std::string commands_help_text(const ProgramDescription& program,
                               std::span<const Command> commands) {
    size_t width = 0;
    for (const Command& command : commands) width = std::max(width, command.name.size());
    std::string text = fmt::format("Usage: {} COMMAND [OPTIONS]\n\n", program.name) +
                       wrapped(program.summary, 0) + "\nCommands:\n";
    for (const Command& command : commands) {
        text += fmt::format("  {:<{}}  {}\n", command.name, width, command.summary);
    }
    text += fmt::format("\n'{} COMMAND --help' lists a command's options.\n", program.name);
    if (!program.examples.empty()) text += "\nExamples:\n" + program.examples;
    return text;
}

std::string bash_completion(const ProgramDescription& program, const OptionSet& options) {
    std::string function = "_" + program.name;
    std::replace(function.begin(), function.end(), '-', '_');
    std::string flags = "--help --version --config";
    std::string cases;
    for (const BoundOption& option : options.all()) {
        const std::vector<std::string> names = completed_flags(option.field());
        flags += fmt::format(" {}", fmt::join(names, " "));
        if (option.field().choices.empty()) continue;
        cases +=
            fmt::format("        {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                        fmt::join(names, "|"), fmt::join(option.field().choices, " "));
    }
    const std::string choices =
        cases.empty() ? "" : "    case \"$previous\" in\n" + cases + "    esac\n";
    return fmt::format(
        "{0}() {{\n"
        "    local word=\"${{COMP_WORDS[COMP_CWORD]}}\" "
        "previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
        "{1}"
        "    if [[ \"$word\" == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"{2}\" -- \"$word\"))\n"
        "    else\n"
        "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "    fi\n"
        "}}\n"
        "complete -o filenames -F {0} {3}\n",
        function, choices, flags, program.name);
}

}  // namespace nvllm
