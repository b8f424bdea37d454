// Parsing by CLI11, which only this file includes: it sorts arguments into options and says what is
// left over. Values are read and settings are ordered here, because CLI11 would let a configuration
// file win over the environment.
#include "lib/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "lib/cli/config_file.h"

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

    ParsedCommandLine parse(std::span<const std::string> arguments, OptionSet& options) {
        std::vector<std::string> split = split_values(arguments, options);
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
        for (const std::string& flag : flags_of(field)) {
            if (field.is_positional) positional_flags_.insert(flag);
            if (field.takes_several) several_.insert(flag);
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

    bool is_own_flag(const std::string& flag) const {
        const CLI::Option* option = app_.get_option_no_throw(flag);
        return option != nullptr && !option->get_positional();
    }

    // The flag of an argument, with dashes where it was written with underscores.
    std::string flag_in(const std::string& argument) const {
        const std::string flag = argument.substr(0, argument.find('='));
        if (!flag.starts_with("--") || is_own_flag(flag)) return flag;
        const std::string dashed = with_dashes(flag);
        return is_own_flag(dashed) ? dashed : flag;
    }

    // "--name=value" and "-n=value" as two arguments: CLI11 takes the next argument as the value
    // whatever it looks like, but loses the empty one after "=" and keeps the "=" after a short
    // name.
    std::vector<std::string> split_values(std::span<const std::string> arguments,
                                          OptionSet& options) {
        std::vector<std::string> split;
        while (!arguments.empty() && arguments[0] != "--") {
            arguments = arguments.subspan(take_argument(arguments, options, split));
        }
        split.insert(split.end(), arguments.begin(), arguments.end());
        return split;
    }

    // Adds the first argument, with its values; returns how many arguments that were. Another
    // program's flag is replaced by what it is called here.
    size_t take_argument(std::span<const std::string> arguments, OptionSet& options,
                         std::vector<std::string>& split) {
        const std::string& argument = arguments[0];
        if (argument.size() < 2 || argument[0] != '-') {
            has_positional_ = true;
            split.push_back(argument);
            return 1;
        }
        const std::string flag = flag_in(argument);
        if (const auto reading = options.read_foreign(arguments, is_own_flag(flag))) {
            for (std::string& part : split_values(reading->instead, options)) {
                split.push_back(std::move(part));
            }
            return reading->num_arguments;
        }
        const size_t equals = std::min(argument.find('='), argument.size());
        if (!is_valued_flag(flag)) {
            split.push_back(flag + argument.substr(equals));
            return 1;
        }
        has_positional_ = has_positional_ || positional_flags_.contains(flag);
        split.push_back(flag);
        if (equals == argument.size()) return 1 + take_values(flag, arguments.subspan(1), split);
        split.push_back(argument.substr(equals + 1));
        return 1;
    }

    // Adds the values of a flag that stand behind it; returns how many arguments that were.
    size_t take_values(const std::string& flag, std::span<const std::string> rest,
                       std::vector<std::string>& split) const {
        const auto bare = bare_values_.find(flag);
        if (bare != bare_values_.end() && (rest.empty() || rest[0].starts_with('-'))) {
            split.push_back(bare->second);
            return 0;
        }
        if (rest.empty()) throw Error(ErrorKind::usage, flag + " needs a value");
        split.push_back(rest[0]);
        size_t num_taken = 1;
        if (!several_.contains(flag) || !names_positional(rest)) return num_taken;
        for (; num_taken < rest.size() && !rest[num_taken].starts_with('-'); ++num_taken) {
            split.insert(split.end(), {flag, rest[num_taken]});
        }
        return num_taken;
    }

    // Whether a positional argument stood before the rest, or its flag is in it, or there is none
    // that a word could be meant for.
    bool names_positional(std::span<const std::string> rest) const {
        return has_positional_ || positional_flags_.empty() ||
               std::ranges::any_of(rest, [&](const std::string& argument) {
                   return positional_flags_.contains(flag_in(argument));
               });
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
            GivenOption given{entry.option, "--" + field.name, {}};
            if (entry.positional != nullptr && entry.positional->count() > 0) {
                given.flag = field.value_name;
                given.texts = entry.positional->results();
            }
            if (entry.flag->count() > 0) {
                given.flag = "--" + field.name;
                const std::vector<std::string> texts = entry.flag->results();
                given.texts.insert(given.texts.end(), texts.begin(), texts.end());
            }
            if (given.texts.empty()) continue;
            if (field.is_named_once) refuse_several(given);
            parsed.options.push_back(std::move(given));
        }
        return parsed;
    }

    static void refuse_several(const GivenOption& given) {
        for (const std::string& text : given.texts) {
            if (text == given.texts.front()) continue;
            throw Error(ErrorKind::usage,
                        fmt::format("--{}: one alone, and both '{}' and '{}' are "
                                    "given",
                                    given.option->field().name, given.texts.front(), text));
        }
    }

    bool is_given(const std::string& name) const { return general_.at(name)->count() > 0; }

    CLI::App app_;
    std::map<std::string, CLI::Option*> general_;
    std::map<std::string, std::string> bare_values_;  // by flag
    std::set<std::string> several_;                   // flags that may take several words
    std::set<std::string> positional_flags_;          // of options that are positional as well
    bool has_positional_ = false;                     // in the arguments read so far
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

namespace {

// What the program did not say itself.
void say_notes(const ProgramDescription& program, OptionSet& options) {
    for (const std::string& note : options.take_notes()) {
        const std::string line = fmt::format("{}: {}\n", program.name, note);
        std::fwrite(line.data(), 1, line.size(), stderr);
    }
}

}  // namespace

std::optional<std::string> read_command_line(const ProgramDescription& program, OptionSet& options,
                                             int argc, const char* const* argv,
                                             const SettingsCheck& check) {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const ParsedCommandLine parsed = parse_command_line(arguments, options);
    if (parsed.is_about_program()) return text_about(describe_program(program, options), parsed);
    if (program.sections != nullptr) options.share(program.sections());
    try {
        note_misspelt_variables(options, process_variables());
        resolve_settings(options, parsed, process_environment());
        if (parsed.wants_config_printed) {
            say_notes(program, options);
            return fmt::format("# {} {}\n{}", program.name, program.version,
                               print_as_yaml(options));
        }
        if (check) check();
    } catch (const Error& error) {
        say_notes(program, options);
        const bool is_usage = error.kind() == ErrorKind::usage;
        if (!parsed.wants_config_checked || is_usage) throw;
        throw Error(ErrorKind::bad_config, error.what());
    }
    say_notes(program, options);
    if (parsed.wants_config_checked) return "ok\n";
    return std::nullopt;
}

}  // namespace nvllm
