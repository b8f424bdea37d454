// Manual pages.
#include <fmt/format.h>

#include <array>

#include "lib/base/error_kinds.h"
#include "lib/cli/program_text.h"

namespace nvllm {
namespace {

// Text as roff shows it: backslashes and dashes are themselves, and no line begins with a control
// character.
std::string roff(const std::string& text) {
    std::string escaped;
    bool at_start = true;
    for (const char letter : text) {
        if (at_start && (letter == '.' || letter == '\'')) escaped += "\\&";
        if (letter == '\\') {
            escaped += "\\e";
        } else if (letter == '-') {
            escaped += "\\-";
        } else {
            escaped += letter;
        }
        at_start = letter == '\n';
    }
    return escaped;
}

std::string heading(const std::string& macro, std::string title) {
    std::erase(title, '"');
    return fmt::format(".{} \"{}\"\n", macro, roff(title));
}

std::string option_entry(const DescribedOption& option) {
    const OptionField& field = option.field;
    std::vector<std::string> flags;
    for (const std::string& flag : flags_of(field)) flags.push_back(roff(flag));
    const std::string value = shown_value_name(field);
    return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", fmt::join(flags, "\\fR, \\fB"),
                       value.empty() ? "" : " \\fI" + roff(value) + "\\fR",
                       roff(explanation_of(option)));
}

std::string options_text(const DescribedProgram& program, const std::string& macro) {
    std::string text;
    for (const std::string& group : groups_of(program)) {
        text += heading(macro, group);
        for (const DescribedOption& option : program.options) {
            if (option.field.group == group) text += option_entry(option);
        }
    }
    return text;
}

std::string synopsis(const DescribedProgram& program) {
    std::string line = fmt::format("\\fB{}\\fR", roff(program.description.name));
    line += program.commands.empty() ? " [\\fIOPTIONS\\fR]" : " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]";
    for (const DescribedOption& option : program.options) {
        if (!option.field.is_positional) continue;
        line += fmt::format(" [\\fI{}\\fR]{}", roff(shown_value_name(option.field)),
                            option.field.is_list ? "..." : "");
    }
    return line + "\n";
}

std::string examples(const DescribedProgram& program) {
    return program.description.examples.empty()
               ? ""
               : ".nf\n" + roff(program.description.examples) + ".fi\n";
}

std::string commands_text(const DescribedProgram& program) {
    std::string text;
    for (const DescribedProgram& command : program.commands) {
        text += heading("SH", command.description.name);
        text += roff(command.description.summary) + "\n.PP\n" + synopsis(command);
        text += options_text(command, "SS");
        if (!command.description.examples.empty()) text += heading("SS", "Examples");
        text += examples(command);
    }
    return text;
}

std::string shared_keys_text(const ConfigSections& sections) {
    std::string text;
    std::string section;
    for (const ConfigKey& key : sections.keys) {
        text +=
            key.section != section ? fmt::format(".TP\n\\fB{}\\fR\n", roff(key.section)) : ".br\n";
        section = key.section;
        text += fmt::format("{}: \\fB\\-\\-{}\\fR\n", roff(key.key), roff(key.option));
    }
    return text;
}

std::string configuration_text(const ProgramDescription& program) {
    std::string text = heading("SH", "CONFIGURATION FILE") +
                       roff(
                           "YAML. A key is the name of an option, at the top or in the option's "
                           "own section");
    if (program.sections == nullptr) return text + ".\n";
    text += roff(
        "; these sections are read by all programs, and a key of theirs does nothing in a program "
        "that has no such option.\n");
    return text + shared_keys_text(program.sections());
}

std::string environment_text() {
    return heading("SH", "ENVIRONMENT") +
           roff(
               "NVLLM_NAME sets the option --name, in capitals and with underscores: NVLLM_TOP_K "
               "for --top-k. Lists are separated by commas. NVLLM_CONFIG names the configuration "
               "file. A flag wins over the environment, the environment over the file.\n");
}

std::string exit_status_text() {
    std::string text = heading("SH", "EXIT STATUS") + ".TP\n\\fB0\\fR\nDone.\n";
    for (const ErrorKindRow& row : error_kind_rows()) {
        text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", row.exit_code, roff(row.meaning));
    }
    return text + ".TP\n\\fB130\\fR, \\fB143\\fR\nInterrupted, terminated.\n";
}

}  // namespace

std::string manual_page(const DescribedProgram& program) {
    const ProgramDescription& description = program.description;
    const std::string& summary = description.summary;
    std::string text = fmt::format(".TH \"{}\" 1 \"\" \"nanovllm {}\" \"nanovllm\"\n",
                                   roff(description.name), roff(description.version));
    std::string first = summary.substr(0, summary.find(". "));
    if (first.ends_with('.')) first.pop_back();
    text += heading("SH", "NAME") + roff(description.name) + " \\- " + roff(first) + "\n";
    text += heading("SH", "SYNOPSIS") + synopsis(program);
    text += heading("SH", "DESCRIPTION") + roff(summary) + "\n";
    if (!program.options.empty()) text += heading("SH", "OPTIONS") + options_text(program, "SS");
    text += commands_text(program);
    text += heading("SH", "GENERAL OPTIONS");
    for (const OptionField& field : general_options()) text += option_entry({field, ""});
    text += configuration_text(description) + environment_text() + exit_status_text();
    if (!description.examples.empty()) text += heading("SH", "EXAMPLES") + examples(program);
    return text;
}

}  // namespace nvllm
