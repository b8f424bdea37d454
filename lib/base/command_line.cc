// Parsing by CLI11, which only this file includes: it sorts arguments into options and says what is
// left over. Values are read and settings are ordered here, because CLI11 would let a configuration
// file win over the environment.
#include "lib/base/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>

#include "lib/base/config_file.h"

namespace nvllm {
namespace {

const std::array<std::string, 3> kGeneralOptions = {"config", "help", "version"};

bool is_boolean(const BoundOption& option) {
    return option.field().kind == OptionKind::boolean && !option.field().is_list;
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
        for (const std::string& name : kGeneralOptions) {
            NVLLM_CHECK(options.find(name) == nullptr, "every program has an option --" + name);
        }
        app_.set_help_flag();
        app_.allow_extras();
        help_ = app_.add_flag("-h,--help");
        version_ = app_.add_flag("--version");
        config_ = add_valued("--config");
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
        if (is_boolean(option)) {
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
            if (equals == std::string::npos && i + 1 == arguments.size()) {
                throw Error(ErrorKind::usage, flag + " needs a value");
            }
            split.push_back(flag);
            split.push_back(equals == std::string::npos ? arguments[++i]
                                                        : argument.substr(equals + 1));
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
        if (!nearest) nearest = nearest_name(name, kGeneralOptions);
        return fmt::format("unknown option {}{}", flag,
                           nearest ? "; did you mean --" + *nearest + "?" : "");
    }

    ParsedCommandLine collect() const {
        ParsedCommandLine parsed;
        parsed.wants_help = help_->count() > 0;
        parsed.wants_version = version_->count() > 0;
        if (config_->count() > 0) parsed.config_file = config_->results().back();
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

    CLI::App app_;
    CLI::Option* help_ = nullptr;
    CLI::Option* version_ = nullptr;
    CLI::Option* config_ = nullptr;
    std::vector<Entry> entries_;
};

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
}

std::optional<std::string> read_command_line(const ProgramDescription& program, OptionSet& options,
                                             int argc, const char* const* argv) {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const ParsedCommandLine parsed = parse_command_line(arguments, options);
    if (parsed.wants_help) return help_text(program, options);
    if (parsed.wants_version) return program.name + " " + program.version + "\n";
    resolve_settings(options, parsed, process_environment());
    return std::nullopt;
}

}  // namespace nvllm
