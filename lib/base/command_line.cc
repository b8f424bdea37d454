// Parsing by CLI11, which only this file includes: it sorts arguments into options and says what is
// left over. Values are read and settings are ordered here, because CLI11 would let a configuration
// file win over the environment.
#include "lib/base/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "lib/base/config_file.h"

namespace nvllm {
namespace {

std::vector<std::string> general_names() {
    std::vector<std::string> names;
    for (const OptionField& field : general_options()) names.push_back(field.name);
    return names;
}

std::vector<std::string> long_names(const OptionField& field) {
    std::vector<std::string> names = {field.name};
    names.insert(names.end(), field.aliases.begin(), field.aliases.end());
    return names;
}

// "-n,--max-tokens,--predict", or "--echo,!--no-echo" for booleans, as CLI11 wants it.
std::string cli_names(const OptionField& field, bool is_boolean) {
    std::string names = field.short_name ? fmt::format("-{},", *field.short_name) : "";
    for (const std::string& name : long_names(field)) {
        names += fmt::format("--{},", name);
        if (is_boolean) names += fmt::format("!--no-{},", name);
    }
    names.pop_back();
    return names;
}

// One program's options as CLI11 knows them.
class Parser {
  public:
    explicit Parser(OptionSet& options) {
        app_.set_help_flag();
        app_.allow_extras();
        for (const OptionField& field : general_options()) {
            NVLLM_CHECK(options.find(field.name) == nullptr,
                        "every program has an option --" + field.name);
            const std::string names = cli_names(field, false);
            general_[field.name] = is_switch(field) ? app_.add_flag(names) : add_valued(names);
            note_bare_value(field);
        }
        for (BoundOption& option : options.all()) add(option);
    }

    ParsedCommandLine parse(std::span<const std::string> arguments, const OptionSet& options) {
        std::vector<std::string> split = split_values(arguments);
        std::reverse(split.begin(), split.end());
        try {
            app_.parse(std::move(split));
        } catch (const CLI::ParseError& error) {
            throw Error(ErrorKind::usage, error.what());
        }
        refuse_extras(options);
        return collect();
    }

  private:
    struct Entry {
        BoundOption* option;
        CLI::Option* flag;
        CLI::Option* positional;
    };

    // Exactly one value each time it is named, any number of times.
    CLI::Option* add_valued(const std::string& names) {
        return app_.add_option(names, [](const CLI::results_t&) { return true; })
            ->type_size(1)
            ->expected(1, CLI::detail::expected_max_vector_size)
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }

    void add(BoundOption& option) {
        const OptionField& field = option.field();
        Entry entry{&option, nullptr, nullptr};
        note_bare_value(field);
        if (is_switch(option.field())) {
            entry.flag = app_.add_flag(cli_names(field, true))
                             ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        } else {
            entry.flag = add_valued(cli_names(field, false));
        }
        if (field.is_positional) {
            entry.positional = app_.add_option(field.name + "_argument",
                                               [](const CLI::results_t&) { return true; });
            entry.positional->expected(field.is_list ? CLI::detail::expected_max_vector_size : 1);
        }
        entries_.push_back(entry);
    }

    // Whether this is the flag of an option that takes a value.
    bool is_valued_flag(const std::string& flag) const {
        const CLI::Option* option = app_.get_option_no_throw(flag);
        return option != nullptr && !option->get_positional() &&
               option->get_items_expected_max() > 0;
    }

    void note_bare_value(const OptionField& field) {
        if (!field.bare_value) return;
        for (const std::string& flag : flags_of(field)) bare_values_[flag] = *field.bare_value;
    }

    // "--name=value" and "-n=value" as two arguments: CLI11 takes the next argument as the value
    // whatever it looks like, but loses the empty one after "=" and keeps the "=" after a short
    // name.
    std::vector<std::string> split_values(std::span<const std::string> arguments) const {
        std::vector<std::string> split;
        for (size_t i = 0; i < arguments.size(); ++i) {
            const std::string& argument = arguments[i];
            const size_t equals = argument.find('=');
            const std::string flag = argument.substr(0, equals);
            const bool takes_value = flag.size() > 1 && flag[0] == '-' && is_valued_flag(flag);
            if (!takes_value) {
                split.push_back(argument);
                if (argument != "--") continue;
                split.insert(split.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                             arguments.end());
                return split;
            }
            split.push_back(flag);
            if (equals != std::string::npos) {
                split.push_back(argument.substr(equals + 1));
                continue;
            }
            const bool is_last = i + 1 == arguments.size();
            const auto bare = bare_values_.find(flag);
            if (bare != bare_values_.end() && (is_last || arguments[i + 1].starts_with('-'))) {
                split.push_back(bare->second);
                continue;
            }
            if (is_last) throw Error(ErrorKind::usage, flag + " needs a value");
            split.push_back(arguments[++i]);
        }
        return split;
    }

    void refuse_extras(const OptionSet& options) const {
        std::vector<std::string> extras = app_.remaining();
        const auto mark = std::find(extras.begin(), extras.end(), "--");
        const auto first_flag = std::find_if(extras.begin(), mark, [](const std::string& extra) {
            return extra.size() > 1 && extra[0] == '-';
        });
        if (first_flag != mark) throw Error(ErrorKind::usage, unknown_flag(*first_flag, options));
        if (mark != extras.end()) extras.erase(mark);
        if (!extras.empty()) {
            throw Error(ErrorKind::usage, fmt::format("unexpected argument '{}'", extras.front()));
        }
    }

    static std::string unknown_flag(const std::string& argument, const OptionSet& options) {
        const std::string flag = argument.substr(0, argument.find('='));
        const std::string name = flag.substr(flag.starts_with("--") ? 2 : 1);
        auto nearest = options.nearest(name);
        if (!nearest && name.starts_with("no-")) nearest = options.nearest(name.substr(3));
        if (!nearest) nearest = nearest_name(name, general_names());
        return fmt::format("unknown option {}{}", flag,
                           nearest ? "; did you mean --" + *nearest + "?" : "");
    }

    ParsedCommandLine collect() const {
        ParsedCommandLine parsed;
        parsed.wants_help = is_given("help");
        if (parsed.wants_help) parsed.help_topic = general_.at("help")->results().back();
        parsed.wants_version = is_given("version");
        parsed.wants_manual = is_given("man");
        parsed.wants_option_list = is_given("list-options");
        parsed.wants_config_printed = is_given("print-config");
        parsed.wants_config_checked = is_given("check-config");
        if (is_given("config")) parsed.config_file = general_.at("config")->results().back();
        if (is_given("completion")) {
            parsed.completion_shell = general_.at("completion")->results().back();
        }
        for (const Entry& entry : entries_) {
            const OptionField& field = entry.option->field();
            if (entry.positional != nullptr && entry.positional->count() > 0) {
                parsed.options.push_back(
                    {entry.option, field.value_name, entry.positional->results()});
            }
            if (entry.flag->count() > 0) {
                parsed.options.push_back({entry.option, "--" + field.name, entry.flag->results()});
            }
        }
        return parsed;
    }

    bool is_given(const std::string& name) const { return general_.at(name)->count() > 0; }

    CLI::App app_;
    std::map<std::string, CLI::Option*> general_;
    std::map<std::string, std::string> bare_values_;  // by flag
    std::vector<Entry> entries_;
};

// A printed configuration that is read again has no secrets in it.
void refuse_hidden_values(const OptionSet& options) {
    for (const BoundOption& option : options.all()) {
        if (!option.field().is_secret) continue;
        const std::vector<std::string> texts = option.texts();
        if (std::ranges::find(texts, kHiddenValue) == texts.end()) continue;
        throw Error(ErrorKind::bad_config,
                    fmt::format("{}: {}: '{}' stands for a value that was not printed: give the "
                                "value, or leave the option out",
                                option.where(), option.field().name, kHiddenValue));
    }
}

}  // namespace

ParsedCommandLine parse_command_line(std::span<const std::string> arguments, OptionSet& options) {
    return Parser(options).parse(arguments, options);
}

void resolve_settings(OptionSet& options, const ParsedCommandLine& parsed,
                      const EnvironmentLookup& environment) {
    std::string config_file = parsed.config_file.value_or("");
    if (!parsed.config_file) config_file = environment(environment_name("config")).value_or("");
    if (!config_file.empty()) apply_config_file(options, config_file);
    apply_environment(options, environment);
    for (const GivenOption& given : parsed.options) {
        std::span<const std::string> texts = given.texts;
        if (!given.option->field().is_list) texts = texts.last(1);
        given.option->set(texts, OptionOrigin::flag, given.flag, ErrorKind::usage);
    }
    refuse_hidden_values(options);
}

std::string text_about(const DescribedProgram& program, const ParsedCommandLine& parsed) {
    NVLLM_CHECK(parsed.is_about_program(), "nothing was asked of the program");
    if (parsed.wants_help) {
        return parsed.help_topic.empty() ? help_text(program)
                                         : help_on_topic(program, parsed.help_topic);
    }
    if (parsed.wants_version) {
        return program.description.name + " " + program.description.version + "\n";
    }
    if (parsed.completion_shell) return completion_script(program, *parsed.completion_shell);
    if (parsed.wants_manual) return manual_page(program);
    return options_as_json(program);
}

std::optional<std::string> read_command_line(const ProgramDescription& program, OptionSet& options,
                                             int argc, const char* const* argv,
                                             const SettingsCheck& check) {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const ParsedCommandLine parsed = parse_command_line(arguments, options);
    if (parsed.is_about_program()) return text_about(describe_program(program, options), parsed);
    try {
        resolve_settings(options, parsed, process_environment());
        if (parsed.wants_config_printed) {
            return fmt::format("# {} {}\n{}", program.name, program.version,
                               print_as_yaml(options));
        }
        if (check) check();
    } catch (const Error& error) {
        const bool is_usage = error.kind() == ErrorKind::usage;
        if (!parsed.wants_config_checked || is_usage) throw;
        throw Error(ErrorKind::bad_config, error.what());
    }
    if (parsed.wants_config_checked) return "ok\n";
    return std::nullopt;
}

}  // namespace nvllm
