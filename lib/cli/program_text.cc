// Programs described, and what their texts have in common.
#include "lib/cli/program_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/json.h"

namespace nvllm {
namespace {

OptionField general(std::string name, OptionKind kind, std::string help,
                    std::string value_name = "") {
    OptionField field;
    field.name = std::move(name);
    field.kind = kind;
    field.help = std::move(help);
    field.group = "General";
    field.is_general = true;
    field.value_name = std::move(value_name);
    return field;
}

std::vector<OptionField> make_general_options() {
    OptionField help =
        general("help", OptionKind::text,
                "Print this help, or with a word only what is said about it.", "[TOPIC]");
    help.short_name = 'h';
    help.bare_value = "";
    OptionField completion = general("completion", OptionKind::choice,
                                     "Print a script that completes in this shell.", "SHELL");
    completion.choices = {"bash", "zsh", "fish"};
    return {
        general("config", OptionKind::text,
                "Read options from a YAML file, by their names or in sections that all programs "
                "read.",
                "FILE"),
        general("check-config", OptionKind::boolean,
                "Read all settings, check them, say ok or what is wrong, and leave."),
        general("print-config", OptionKind::boolean,
                "Print the values in force and where each comes from, as a configuration file."),
        help,
        general("version", OptionKind::boolean, "Print the version."),
        completion,
        general("man", OptionKind::boolean, "Print the manual page, for man -l -."),
        general("list-options", OptionKind::boolean, "Print all options as JSON.")};
}

std::string json_list(const std::vector<std::string>& words) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back(json_quoted(word));
    return fmt::format("[{}]", fmt::join(quoted, ", "));
}

const char* kind_name(OptionKind kind) {
    switch (kind) {
        case OptionKind::integer:
            return "integer";
        case OptionKind::number:
            return "number";
        case OptionKind::boolean:
            return "boolean";
        case OptionKind::text:
            return "text";
        case OptionKind::size:
            return "size";
        case OptionKind::choice:
            break;
    }
    return "choice";
}

std::string option_as_json(const DescribedOption& option) {
    const OptionField& field = option.field;
    return fmt::format(
        "{{\"name\": {}, \"kind\": \"{}\", \"is_list\": {}, \"group\": {}, \"section\": {}, "
        "\"flags\": {}, \"choices\": {}, \"range\": {}, \"form\": {}, \"default\": {}, \"help\": "
        "{}, \"is_bytes\": {}, \"is_secret\": {}}}",
        json_quoted(field.name), kind_name(field.kind), field.is_list, json_quoted(field.group),
        json_quoted(field.section), json_list(flags_of(field)), json_list(field.choices),
        json_quoted(field.range_text), json_quoted(field.form), json_quoted(option.default_text),
        json_quoted(field.help), field.shows_bytes, field.is_secret);
}

std::string members_as_json(const DescribedProgram& program) {
    std::vector<std::string> entries;
    for (const DescribedOption& option : program.options) entries.push_back(option_as_json(option));
    if (program.commands.empty()) {
        return fmt::format("\"options\": [\n  {}\n]", fmt::join(entries, ",\n  "));
    }
    for (const DescribedProgram& command : program.commands) {
        entries.push_back(fmt::format("{{\"command\": {}, {}}}",
                                      json_quoted(command.command_name()),
                                      members_as_json(command)));
    }
    return fmt::format("\"commands\": [\n{}\n]", fmt::join(entries, ",\n"));
}

}  // namespace

std::string DescribedProgram::command_name() const {
    return description.name.substr(description.name.rfind(' ') + 1);
}

DescribedProgram describe_program(const ProgramDescription& program, const OptionSet& options) {
    DescribedProgram described{program, {}, {}, ""};
    for (const BoundOption& option : options.all()) {
        described.options.push_back({option.field(), option.default_text()});
    }
    return described;
}

std::span<const OptionField> general_options() {
    static const std::vector<OptionField> fields = make_general_options();
    return fields;
}

bool is_switch(const OptionField& field) {
    return field.kind == OptionKind::boolean && !field.is_list;
}

std::vector<std::string> flags_of(const OptionField& field) {
    std::vector<std::string> flags = {"--" + field.name};
    if (is_switch(field) && !field.is_general) flags.push_back("--no-" + field.name);
    for (const std::string& alias : field.aliases) flags.push_back("--" + alias);
    if (field.short_name) flags.push_back(std::string("-") + *field.short_name);
    return flags;
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
            break;
    }
    return "TEXT";
}

std::string explanation_of(const DescribedOption& option) {
    const OptionField& field = option.field;
    std::vector<std::string> notes;
    if (!field.choices.empty())
        notes.push_back(fmt::format("one of {}", fmt::join(field.choices, ", ")));
    if (!field.range_text.empty()) notes.push_back(field.range_text);
    if (field.is_list) notes.push_back("may be repeated");
    if (!option.default_text.empty()) notes.push_back("default: " + option.default_text);
    return field.help + (notes.empty() ? "" : fmt::format(" ({})", fmt::join(notes, "; ")));
}

std::vector<std::string> groups_of(const DescribedProgram& program) {
    std::vector<std::string> groups;
    for (const DescribedOption& option : program.options) {
        const std::string& group = option.field.group;
        if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
    return groups;
}

std::string options_as_json(const DescribedProgram& program) {
    return fmt::format("{{\"program\": {}, \"version\": {}, {}}}\n",
                       json_quoted(program.description.name),
                       json_quoted(program.description.version), members_as_json(program));
}

}  // namespace nvllm
