// Completion scripts for bash, zsh and fish.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/cli/program_text.h"

namespace nvllm {
namespace {

// What a shell offers for an option's value.
enum class ValueKind { none, words, model, file };

ValueKind value_kind(const OptionField& field) {
    // Nothing is offered for what may stand alone: the next word may belong to another option.
    if (is_switch(field) || field.bare_value) return ValueKind::none;
    if (!field.choices.empty()) return ValueKind::words;
    return field.value_name.find("MODEL") != std::string::npos ? ValueKind::model : ValueKind::file;
}

std::vector<OptionField> fields_of(const DescribedProgram& program) {
    std::vector<OptionField> fields(general_options().begin(), general_options().end());
    for (const DescribedOption& option : program.options) fields.push_back(option.field);
    for (OptionField& field : fields) {
        if (field.choices.empty()) field.choices = field.words;
    }
    return fields;
}

// "_nvllm_bench_latency".
std::string function_name(const DescribedProgram& program) {
    std::string name = "_" + program.description.name;
    std::ranges::replace_if(
        name, [](char letter) { return letter == '-' || letter == ' '; }, '_');
    return name;
}

std::string command_names(const DescribedProgram& program) {
    std::vector<std::string> names;
    for (const DescribedProgram& command : program.commands)
        names.push_back(command.command_name());
    return fmt::format("{}", fmt::join(names, " "));
}

// The command that is meant while none was named; the program itself when it has none.
const DescribedProgram* fallback_of(const DescribedProgram& program) {
    const auto found =
        std::ranges::find(program.commands, program.fallback, &DescribedProgram::command_name);
    return found == program.commands.end() ? nullptr : &*found;
}

// Models in the local Hugging Face cache, one a line, as org/name: the same words in all shells.
constexpr const char* kCachedModels =
    "ls -d \"${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}\"/models--*--* 2>/dev/null "
    "| "
    "sed 's|.*/models--||; s|--|/|'";

// --- bash

std::string bash_value_cases(const DescribedProgram& program) {
    std::string cases;
    for (const OptionField& field : fields_of(program)) {
        const std::string flags = fmt::format("{}", fmt::join(flags_of(field), "|"));
        if (value_kind(field) == ValueKind::words) {
            cases += fmt::format("        {}) _nvllm_words \"{}\"; return ;;\n", flags,
                                 fmt::join(field.choices, " "));
        } else if (value_kind(field) == ValueKind::model) {
            cases += fmt::format("        {}) _nvllm_models; return ;;\n", flags);
        }
    }
    return "    case \"$previous\" in\n" + cases + "    esac\n";
}

std::string bash_function(const DescribedProgram& program, const std::string& more_words) {
    std::vector<std::string> flags;
    for (const OptionField& field : fields_of(program)) {
        for (std::string& flag : flags_of(field)) flags.push_back(std::move(flag));
    }
    std::string text = function_name(program) + "_options() {\n";
    text += bash_value_cases(program);
    text +=
        fmt::format("    if [[ \"$word\" == -* ]]; then\n        _nvllm_words \"{}\"\n    else\n",
                    fmt::join(flags, " "));
    const bool takes_model =
        std::ranges::any_of(program.options, [](const DescribedOption& option) {
            return option.field.is_positional && value_kind(option.field) == ValueKind::model;
        });
    text += takes_model ? "        _nvllm_models\n"
                        : "        COMPREPLY=($(compgen -f -- \"$word\"))\n";
    if (!more_words.empty()) {
        text += fmt::format("        COMPREPLY+=($(compgen -W \"{}\" -- \"$word\"))\n", more_words);
    }
    return text + "    fi\n}\n";
}

std::string bash_script(const DescribedProgram& program) {
    std::string text = fmt::format(
        "# bash completion for {0}\n"
        "_nvllm_words() {{ COMPREPLY=($(compgen -W \"$1\" -- \"$word\")); }}\n"
        "_nvllm_models() {{\n"
        "    COMPREPLY=($(compgen -d -- \"$word\") $(compgen -W \"$({1})\" -- \"$word\"))\n"
        "}}\n",
        program.description.name, kCachedModels);
    std::string choice;
    for (const DescribedProgram& command : program.commands) {
        text += bash_function(command, "");
        choice += fmt::format("        {}) {}_options; return ;;\n", command.command_name(),
                              function_name(command));
    }
    const DescribedProgram* fallback = fallback_of(program);
    DescribedProgram first = fallback == nullptr ? program : *fallback;
    first.description = program.description;
    text += bash_function(first, command_names(program));
    text += fmt::format(
        "{0}() {{\n"
        "    local word=\"${{COMP_WORDS[COMP_CWORD]}}\" "
        "previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n",
        function_name(program));
    if (!choice.empty()) {
        text += "    if ((COMP_CWORD > 1)); then case \"${COMP_WORDS[1]}\" in\n" + choice +
                "    esac; fi\n";
    }
    return text + fmt::format("    {0}_options\n}}\ncomplete -o filenames -F {0} {1}\n",
                              function_name(program), program.description.name);
}

// --- zsh

// Inside '...[explanation]:value:...'.
std::string zsh_escaped(const std::string& text) {
    std::string escaped;
    for (const char letter : text) {
        if (letter == '\'') {
            escaped += "'\\''";
            continue;
        }
        if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') escaped += '\\';
        escaped += letter;
    }
    return escaped;
}

std::string zsh_action(const OptionField& field) {
    switch (value_kind(field)) {
        case ValueKind::none:
            return "";
        case ValueKind::words:
            return fmt::format("({})", fmt::join(field.choices, " "));
        case ValueKind::model:
            return "_nvllm_models";
        case ValueKind::file:
            break;
    }
    return "_files";
}

std::string zsh_option(const OptionField& field) {
    const bool takes_value = value_kind(field) != ValueKind::none;
    std::string value;
    if (takes_value) {
        value = fmt::format(":{}:{}", zsh_escaped(shown_value_name(field)), zsh_action(field));
    }
    std::string lines;
    for (const std::string& flag : flags_of(field)) {
        const std::string sign = takes_value && flag.size() > 2 ? "=" : "";
        lines +=
            fmt::format("        '*{}{}[{}]{}' \\\n", flag, sign, zsh_escaped(field.help), value);
    }
    return lines;
}

std::string zsh_arguments(const DescribedProgram& program) {
    std::string lines;
    bool takes_files = true;
    for (const OptionField& field : fields_of(program)) {
        lines += zsh_option(field);
        if (!field.is_positional) continue;
        takes_files = false;
        lines += fmt::format("        '{}:{}:{}' \\\n", field.is_list ? "*" : "",
                             zsh_escaped(shown_value_name(field)), zsh_action(field));
    }
    return "    _arguments -s \\\n" + lines + (takes_files ? "        '*:file:_files'\n" : "\n");
}

std::string zsh_commands(const DescribedProgram& program) {
    std::string described, choice;
    for (const DescribedProgram& command : program.commands) {
        described += fmt::format("        '{}:{}'\n", command.command_name(),
                                 zsh_escaped(command.description.summary));
        choice += fmt::format("        {}) shift words; ((CURRENT--)); {} ;;\n",
                              command.command_name(), function_name(command));
    }
    const DescribedProgram* fallback = fallback_of(program);
    const std::string other = fallback == nullptr ? "_nvllm_general" : function_name(*fallback);
    return fmt::format(
        "    local -a commands=(\n{}    )\n"
        "    if ((CURRENT == 2)) && [[ \"$words[2]\" != -* ]]; then\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    case \"$words[2]\" in\n{}        *) {} ;;\n    esac\n",
        described, choice, other);
}

std::string zsh_script(const DescribedProgram& program) {
    std::string text = fmt::format(
        "#compdef {}\n"
        "_nvllm_models() {{\n"
        "    local -a cached=(${{(f)\"$({})\"}})\n"
        "    compadd -a cached\n"
        "    _files -/\n"
        "}}\n",
        program.description.name, kCachedModels);
    for (const DescribedProgram& command : program.commands) {
        text += function_name(command) + "() {\n" + zsh_arguments(command) + "}\n";
    }
    if (!program.commands.empty() && fallback_of(program) == nullptr) {
        text += "_nvllm_general() {\n" + zsh_arguments(program) + "}\n";
    }
    const std::string name = function_name(program);
    text += name + "() {\n" +
            (program.commands.empty() ? zsh_arguments(program) : zsh_commands(program)) + "}\n";
    // Loaded from a folder of completions, the file itself is called as _NAME.
    return text + fmt::format(
                      "if [[ \"$funcstack[1]\" == _{1} ]]; then\n    {0} \"$@\"\nelse\n"
                      "    compdef {0} {1}\nfi\n",
                      name, program.description.name);
}

// --- fish

std::string fish_quoted(const std::string& text) {
    std::string quoted = "'";
    for (const char letter : text) {
        if (letter == '\'' || letter == '\\') quoted += '\\';
        quoted += letter;
    }
    return quoted + "'";
}

std::string fish_flag(const std::string& flag) {
    return flag.size() == 2 ? "-s " + flag.substr(1) : "-l " + flag.substr(2);
}

std::string fish_value(const OptionField& field) {
    switch (value_kind(field)) {
        case ValueKind::none:
            return "";
        case ValueKind::words:
            return fmt::format(" -x -a {}",
                               fish_quoted(fmt::format("{}", fmt::join(field.choices, " "))));
        case ValueKind::model:
            return " -r -a '(_nvllm_models)'";
        case ValueKind::file:
            break;
    }
    return " -r";
}

// `condition` is a whole argument, or empty.
std::string fish_options(const DescribedProgram& program, const std::string& name,
                         const std::string& condition) {
    std::string text;
    for (const OptionField& field : fields_of(program)) {
        for (const std::string& flag : flags_of(field)) {
            text += fmt::format("complete -c {}{} {}{} -d {}\n", name, condition, fish_flag(flag),
                                fish_value(field), fish_quoted(field.help));
        }
    }
    return text;
}

std::string fish_script(const DescribedProgram& program) {
    const std::string& name = program.description.name;
    // fish has no ${name:-default}.
    std::string text = fmt::format(
        "# fish completion for {}\n"
        "function _nvllm_models\n"
        "    sh -c {}\n"
        "end\n",
        name, fish_quoted(kCachedModels));
    for (const DescribedProgram& command : program.commands) {
        text += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", name,
                            command.command_name(), fish_quoted(command.description.summary));
        text += fish_options(
            command, name,
            fmt::format(" -n '__fish_seen_subcommand_from {}'", command.command_name()));
    }
    const DescribedProgram* fallback = fallback_of(program);
    const std::string condition = program.commands.empty() ? "" : " -n __fish_use_subcommand";
    return text + fish_options(fallback == nullptr ? program : *fallback, name, condition);
}

}  // namespace

std::string completion_script(const DescribedProgram& program, const std::string& shell) {
    if (shell == "bash") return bash_script(program);
    if (shell == "zsh") return zsh_script(program);
    if (shell == "fish") return fish_script(program);
    throw Error(ErrorKind::usage,
                fmt::format("--completion: '{}' is not one of bash, zsh, fish", shell));
}

}  // namespace nvllm
