// --help, whole or by topic.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/cli/program_text.h"

namespace nvllm {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 28;

using OptionTest = std::function<bool(const OptionField&)>;

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

// "  -n, --max-tokens, --predict N"
std::string shown_flags(const OptionField& field) {
    std::string flags = field.short_name ? fmt::format("  -{}, ", *field.short_name) : "      ";
    flags += is_switch(field) && !field.is_general ? "--[no-]" + field.name : "--" + field.name;
    for (const std::string& alias : field.aliases) flags += ", --" + alias;
    const std::string value = shown_value_name(field);
    return flags + (value.empty() ? "" : " " + value);
}

std::string entry_text(const DescribedOption& option) {
    std::string text = shown_flags(option.field);
    if (text.size() + 2 > kHelpColumn)
        text += "\n" + std::string(kHelpColumn, ' ');
    else
        text += std::string(kHelpColumn - text.size(), ' ');
    return text + wrapped(explanation_of(option), kHelpColumn);
}

// The headings with the options that pass, without those headings that are left empty.
std::string entries_text(const DescribedProgram& program, const OptionTest& passes) {
    std::string text;
    for (const std::string& group : groups_of(program)) {
        std::string entries;
        for (const DescribedOption& option : program.options) {
            if (option.field.group == group && passes(option.field)) entries += entry_text(option);
        }
        if (!entries.empty()) text += fmt::format("\n{}:\n{}", group, entries);
    }
    return text;
}

std::string general_text(const OptionTest& passes) {
    std::string text;
    for (const OptionField& field : general_options()) {
        if (passes(field)) text += entry_text({field, ""});
    }
    return text.empty() ? "" : "\nGeneral:\n" + text;
}

std::string usage_line(const DescribedProgram& program) {
    std::string line = "Usage: " + program.description.name;
    line += program.commands.empty() ? " [OPTIONS]" : " COMMAND [OPTIONS]";
    for (const DescribedOption& option : program.options) {
        const OptionField& field = option.field;
        if (field.is_positional)
            line += fmt::format(" [{}]{}", shown_value_name(field), field.is_list ? "..." : "");
    }
    return line + "\n\n";
}

std::string examples_text(const DescribedProgram& program) {
    const std::string& examples = program.description.examples;
    return examples.empty() ? "" : "\nExamples:\n" + examples;
}

std::string commands_text(const DescribedProgram& program) {
    size_t width = 0;
    for (const DescribedProgram& command : program.commands) {
        width = std::max(width, command.command_name().size());
    }
    std::string text =
        usage_line(program) + wrapped(program.description.summary, 0) + "\nCommands:\n";
    for (const DescribedProgram& command : program.commands) {
        text += fmt::format("  {:<{}}  {}\n", command.command_name(), width,
                            command.description.summary);
    }
    text += fmt::format(
        "\n'{0} COMMAND --help' lists a command's options, '{0} --help WORD' what is\nsaid about "
        "it in any of them.\n",
        program.description.name);
    return text + examples_text(program);
}

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    return text;
}

bool holds(const std::string& text, const std::string& word) {
    return lower(text).find(word) != std::string::npos;
}

// What a topic may mean, the narrowest first: an option, a heading, a word anywhere.
std::vector<OptionTest> meanings_of(const std::string& topic) {
    const std::string word = lower(topic);
    const std::string name =
        with_dashes(word.substr(std::min(word.find_first_not_of('-'), word.size())));
    return {[name](const OptionField& field) {
                return field.name == name ||
                       std::ranges::find(field.aliases, name) != field.aliases.end();
            },
            [word](const OptionField& field) { return holds(field.group, word); },
            [name, word](const OptionField& field) {
                return holds(field.name, name) || holds(field.help, word);
            }};
}

std::vector<std::string> topics_of(const DescribedProgram& program) {
    std::vector<std::string> topics;
    for (const DescribedProgram& command : program.commands) {
        topics.push_back(command.command_name());
        const std::vector<std::string> more = topics_of(command);
        topics.insert(topics.end(), more.begin(), more.end());
    }
    for (const DescribedOption& option : program.options) topics.push_back(option.field.name);
    for (const OptionField& field : general_options()) topics.push_back(field.name);
    return topics;
}

// What passes, of each command; general options, which all have, once.
std::string topic_text(const DescribedProgram& program, const OptionTest& passes) {
    std::string text = entries_text(program, passes);
    for (const DescribedProgram& command : program.commands) {
        const std::string entries = entries_text(command, passes);
        if (!entries.empty()) text += "\n" + command.description.name + entries;
    }
    return text + general_text(passes);
}

}  // namespace

std::string help_text(const DescribedProgram& program) {
    if (!program.commands.empty()) return commands_text(program);
    std::string text = usage_line(program) + wrapped(program.description.summary, 0);
    const OptionTest all = [](const OptionField&) { return true; };
    text += entries_text(program, all) + general_text(all) + '\n';
    text += wrapped(
        "Options come from flags, then from the environment (NVLLM_TOP_K for --top-k), then from "
        "the file, then from the defaults. Sizes take k, m, g (powers of 1000), K, M, G and KiB, "
        "MiB, GiB (powers of 1024).",
        0);
    return text + examples_text(program);
}

std::string help_on_topic(const DescribedProgram& program, const std::string& topic) {
    for (const DescribedProgram& command : program.commands) {
        if (command.command_name() == topic) return help_text(command);
    }
    for (const OptionTest& meaning : meanings_of(topic)) {
        const std::string text = topic_text(program, meaning);
        if (!text.empty()) return text.substr(1);
    }
    const auto nearest = nearest_name(lower(topic), topics_of(program));
    throw Error(ErrorKind::usage, fmt::format("--help: nothing is said about '{}'{}", topic,
                                              nearest ? "; did you mean " + *nearest + "?" : ""));
}

}  // namespace nvllm
