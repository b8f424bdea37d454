// Fields bound to objects, their environment and their printing.
#include "lib/base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "lib/base/json.h"

namespace nvllm {
namespace {

std::string join(std::span<const std::string> words, std::string_view separator) {
    return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char letter : text) {
        if (letter == ',') {
            parts.emplace_back();
        } else {
            parts.back().push_back(letter);
        }
    }
    return parts;
}

bool is_plain_value(const OptionField& field, const std::string& text) {
    return field.kind == OptionKind::integer || field.kind == OptionKind::number ||
           field.kind == OptionKind::boolean ||
           (field.kind == OptionKind::size && !field.shows_bytes && parse_integer<uint64_t>(text));
}

// One value in JSON, which is also valid YAML.
std::string print_value(const OptionField& field, const std::string& text) {
    if (field.is_secret) return json_quoted(kHiddenValue);
    return is_plain_value(field, text) ? text : json_quoted(text);
}

std::string print_values(const BoundOption& option) {
    const std::vector<std::string> texts = option.texts();
    if (!option.field().is_list)
        return texts.empty() ? "null" : print_value(option.field(), texts[0]);
    std::vector<std::string> printed;
    for (const std::string& text : texts) printed.push_back(print_value(option.field(), text));
    return fmt::format("[{}]", join(printed, ", "));
}

// "default", "file serve.yaml:3", "environment NVLLM_SEED", "flag".
std::string describe_origin(const BoundOption& option) {
    switch (option.origin()) {
        case OptionOrigin::built_in:
            return "default";
        case OptionOrigin::file:
            return "file " + option.where();
        case OptionOrigin::environment:
            return "environment " + option.where();
        case OptionOrigin::flag:
            break;
    }
    return "flag";
}

}  // namespace

OptionDetail alias(std::string name) {
    return [name](OptionField& field) { field.aliases.push_back(name); };
}
OptionDetail short_name(char letter) {
    return [letter](OptionField& field) { field.short_name = letter; };
}
OptionDetail choices(std::vector<std::string> words) {
    return [words](OptionField& field) {
        field.kind = OptionKind::choice;
        field.choices = words;
    };
}
OptionDetail words(std::vector<std::string> some) {
    return [some](OptionField& field) { field.words = some; };
}
OptionDetail unlisted(std::vector<std::string> words) {
    return [words](OptionField& field) { field.unlisted = words; };
}
OptionDetail takes_suffixes() {
    return [](OptionField& field) { field.kind = OptionKind::size; };
}
OptionDetail counts_bytes() {
    return [](OptionField& field) {
        field.kind = OptionKind::size;
        field.shows_bytes = true;
    };
}
OptionDetail value_name(std::string name) {
    return [name](OptionField& field) { field.value_name = name; };
}
OptionDetail bare_value(std::string text) {
    return [text](OptionField& field) { field.bare_value = text; };
}
OptionDetail default_text(std::string text) {
    return [text](OptionField& field) { field.default_text = text; };
}
OptionDetail positional() {
    return [](OptionField& field) { field.is_positional = true; };
}
OptionDetail secret() {
    return [](OptionField& field) { field.is_secret = true; };
}
OptionDetail form(std::string text) {
    return [text](OptionField& field) { field.form = text; };
}

std::string OptionField::expectation() const {
    if (!form.empty()) return form;
    std::string bounds;
    if (!range_text.empty())
        bounds = (range_text.starts_with("at least") ? ", " : " from ") + range_text;
    switch (kind) {
        case OptionKind::integer:
            return "a whole number" + bounds;
        case OptionKind::number:
            return "a number" + bounds;
        case OptionKind::boolean:
            return "true or false";
        case OptionKind::size:
            return (shows_bytes ? "a size such as 512MiB or 4GiB"
                                : "a whole number such as 4096 or 32k") +
                   bounds;
        case OptionKind::choice:
            return "one of " + join(choices, ", ");
        case OptionKind::text:
            return "a text";
    }
    return "valid";
}

BoundOption::BoundOption(TypedOptionField typed, void* object)
    : typed_(std::move(typed)), object_(object), default_text_(typed_.field.default_text) {
    if (default_text_.empty()) default_text_ = join(texts(), ", ");
}

void BoundOption::set(std::span<const std::string> texts, OptionOrigin origin, std::string where,
                      ErrorKind kind) {
    if (const auto bad = typed_.set(typed_.field, object_, texts)) {
        const std::string key = origin == OptionOrigin::file ? ": " + typed_.field.name : "";
        throw Error(kind, fmt::format("{}{}: '{}' is not {}", where, key, *bad,
                                      typed_.field.expectation()));
    }
    origin_ = origin;
    where_ = std::move(where);
}

void OptionSet::add(const TypedOptionField& typed, void* object) {
    NVLLM_CHECK(find(typed.field.name) == nullptr, "two options are called " + typed.field.name);
    for (const std::string& alias : typed.field.aliases) {
        NVLLM_CHECK(find(alias) == nullptr, "two options are called " + alias);
    }
    options_.emplace_back(typed, object);
}

BoundOption* OptionSet::find(std::string_view name) {
    const std::string wanted = with_dashes(name);
    for (BoundOption& option : options_) {
        const auto& aliases = option.field().aliases;
        if (option.field().name == wanted) return &option;
        if (std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) return &option;
    }
    return nullptr;
}

BoundOption* OptionSet::find_exact(std::string_view name) {
    for (BoundOption& option : options_) {
        if (option.field().name == name) return &option;
    }
    return nullptr;
}

std::vector<std::string> OptionSet::names() const {
    std::vector<std::string> names;
    for (const BoundOption& option : options_) {
        names.push_back(option.field().name);
        names.insert(names.end(), option.field().aliases.begin(), option.field().aliases.end());
    }
    return names;
}

std::optional<std::string> OptionSet::nearest(std::string_view name) const {
    return nearest_name(with_dashes(name), names());
}

std::string environment_name(std::string_view option_name) {
    std::string name = "NVLLM_";
    for (const char letter : option_name) {
        const bool is_lower = letter >= 'a' && letter <= 'z';
        name.push_back(letter == '-' ? '_'
                       : is_lower    ? static_cast<char>(letter - 'a' + 'A')
                                     : letter);
    }
    return name;
}

EnvironmentLookup process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr) return std::nullopt;
        return value;
    };
}

void apply_environment(OptionSet& options, const EnvironmentLookup& environment) {
    for (BoundOption& option : options.all()) {
        const std::string name = environment_name(option.field().name);
        const std::optional<std::string> value = environment(name);
        if (!value || value->empty()) continue;
        const std::vector<std::string> texts =
            option.field().is_list ? split_at_commas(*value) : std::vector<std::string>{*value};
        option.set(texts, OptionOrigin::environment, name, ErrorKind::bad_config);
    }
}

std::string print_as_yaml(const OptionSet& options) {
    std::string text;
    std::string group;
    for (const BoundOption& option : options.all()) {
        if (option.field().group != group) {
            group = option.field().group;
            text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group);
        }
        text += fmt::format("{}: {}  # {}\n", option.field().name, print_values(option),
                            describe_origin(option));
    }
    return text;
}

std::string print_as_json(const OptionSet& options) {
    std::vector<std::string> members;
    for (const BoundOption& option : options.all()) {
        members.push_back(json_quoted(option.field().name) + ": " + print_values(option));
    }
    return fmt::format("{{{}}}", join(members, ", "));
}

}  // namespace nvllm
