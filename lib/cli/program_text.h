// What a program says about itself, all of it made from its option lists: help, completions for
// shells, a manual page, and the options as JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/cli/options.h"

namespace nvllm {

// What help says besides the options.
struct ProgramDescription {
    std::string name;      // "nvllm-run", "nvllm-bench latency"
    std::string version;   // "0.1.0"
    std::string summary;   // a sentence or two
    std::string examples;  // printed as they are, at the end
    // The sections of configuration files that the program shares with others; null: none.
    ConfigSections (*sections)() = nullptr;
};

struct DescribedOption {
    OptionField field;
    std::string default_text;  // empty when there is none to show
};

// A program, or one of its commands; independent of the structs that its options fill.
struct DescribedProgram {
    ProgramDescription description;
    std::vector<DescribedOption> options;
    std::vector<DescribedProgram> commands;
    std::string fallback;  // the command that runs when none is named; empty: none does

    // "latency" of "nvllm-bench latency".
    std::string command_name() const;
};

DescribedProgram describe_program(const ProgramDescription& program, const OptionSet& options);

// The options that every program and command has: --config, --help, --version ...
std::span<const OptionField> general_options();

// The option's flags with their dashes: "--top-k", "--no-page", "-k".
std::vector<std::string> flags_of(const OptionField& field);
bool is_switch(const OptionField& field);  // takes no value
// "N", "FILE": what stands for the value in texts; empty for switches.
std::string shown_value_name(const OptionField& field);
// The help text with choices, range and default.
std::string explanation_of(const DescribedOption& option);
// Headings in the order of their first option.
std::vector<std::string> groups_of(const DescribedProgram& program);

// Wrapped to 80 columns, grouped under the options' headings; of a program with commands, those.
std::string help_text(const DescribedProgram& program);
// Only what a topic names: a command, an option, a heading, or a word that stands in a name or an
// explanation. Throws usage, with the nearest name, when nothing does.
std::string help_on_topic(const DescribedProgram& program, const std::string& topic);

// A script that completes commands, flags, and the words, models and files that they take. `shell`:
// bash, zsh or fish; throws usage for another.
std::string completion_script(const DescribedProgram& program, const std::string& shell);

// A manual page of section 1, as roff.
std::string manual_page(const DescribedProgram& program);

// {"program", "version", "options": [...]} or, with commands, {"program", "version", "commands"}.
std::string options_as_json(const DescribedProgram& program);

}  // namespace nvllm
