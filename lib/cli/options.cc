// Fields bound to objects, their environment and their printing.
#include "lib/cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

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

// Lists in JSON, such as ["a", "b"], as their elements.
std::vector<std::string> without_json_lists(std::span<const std::string> texts) {
    std::vector<std::string> plain;
    for (const std::string& text : texts) {
        const auto list =
            text.starts_with('[') ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
        const bool holds_texts = list.is_array() && std::ranges::all_of(list, [](const auto& item) {
                                     return item.is_string();
                                 });
        if (!holds_texts) {
            plain.push_back(text);
            continue;
        }
        for (const auto& item : list) plain.push_back(item.template get<std::string>());
    }
    return plain;
}

// Shorter ones are near to many others.
constexpr size_t kShortestMisspelt = 4;

// "max-num-seqs" for "MAX_NUM_SEQS".
std::string name_of_variable(std::string_view variable) {
    std::string name = with_dashes(variable);
    for (char& letter : name) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return name;
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
OptionDetail counts_gib() {
    return [](OptionField& field) {
        counts_bytes()(field);
        field.counts_gib = true;
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
OptionDetail refuses_empty() {
    return [](OptionField& field) { field.refuses_empty = true; };
}
OptionDetail named_once() {
    return [](OptionField& field) { field.is_named_once = true; };
}
OptionDetail takes_several() {
    return [](OptionField& field) { field.takes_several = true; };
}
OptionDetail form(std::string text) {
    return [text](OptionField& field) { field.form = text; };
}

std::string OptionField::expectation() const {
    if (!form.empty()) return form;
    std::string bounds;
    if (range_text.starts_with("at least")) {
        bounds = ", " + range_text;
    } else if (range_text.starts_with("above")) {
        bounds = " " + range_text;
    } else if (!range_text.empty()) {
        bounds = " from " + range_text;
    }
    switch (kind) {
        case OptionKind::integer:
            return "a whole number" + bounds;
        case OptionKind::number:
            return "a number" + bounds;
        case OptionKind::boolean:
            return "true or false";
        case OptionKind::size:
            if (counts_gib) return "a size such as 4GiB, or a number of GiB" + bounds;
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

void BoundOption::set(std::span<const std::string> given, OptionOrigin origin, std::string where,
                      ErrorKind kind) {
    const std::vector<std::string> texts =
        typed_.field.takes_several ? without_json_lists(given)
                                   : std::vector<std::string>(given.begin(), given.end());
    const std::string key = origin == OptionOrigin::file ? ": " + typed_.field.name : "";
    // In a file, where values that are not set are printed so, it is none.
    const bool has_empty = std::ranges::find(texts, "") != texts.end();
    if (typed_.field.refuses_empty && has_empty && origin == OptionOrigin::flag) {
        throw Error(kind, fmt::format("{}: is empty; a variable that is not set?", where));
    }
    if (const auto bad = typed_.set(typed_.field, object_, texts)) {
        throw Error(kind, fmt::format("{}{}: '{}' is not {}", where, key, *bad,
                                      typed_.field.expectation()));
    }
    note_.clear();
    if (typed_.field.counts_gib && is_bare_gib(texts[0])) {
        note_ = fmt::format("{}{}: {} counts GiB, as in vLLM; in bytes that is {}B", where, key,
                            texts[0], texts[0]);
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

void OptionSet::add_foreign(std::span<const ForeignFlag> table) {
    foreign_.insert(foreign_.end(), table.begin(), table.end());
}

std::optional<ForeignReading> OptionSet::read_foreign(std::span<const std::string> arguments,
                                                      bool is_own) {
    std::optional<ForeignReading> reading = read_foreign_flag(foreign_, arguments, is_own);
    if (!reading) return std::nullopt;
    for (const std::string& argument : reading->instead) {
        std::string name = argument.substr(2, argument.find('=') - 2);
        if (find(name) == nullptr && name.starts_with("no-")) name.erase(0, 3);
        if (find(name) != nullptr) continue;
        throw Error(ErrorKind::usage,
                    fmt::format("{}: is --{} elsewhere; this program has no such option",
                                arguments[0].substr(0, arguments[0].find('=')), name));
    }
    if (!reading->note.empty()) note(reading->note);
    return reading;
}

std::vector<std::string> OptionSet::take_notes() {
    std::vector<std::string> notes = std::exchange(notes_, {});
    for (BoundOption& option : options_) {
        std::string said = option.take_note();
        if (!said.empty()) notes.push_back(std::move(said));
    }
    return notes;
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

std::vector<std::string> process_variables() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        names.emplace_back(variable.substr(0, variable.find('=')));
    }
    return names;
}

void note_misspelt_variables(OptionSet& options, std::span<const std::string> variables) {
    constexpr std::string_view kPrefix = "NVLLM_";
    for (const std::string& variable : variables) {
        if (!variable.starts_with(kPrefix)) continue;
        const std::string name =
            name_of_variable(std::string_view(variable).substr(kPrefix.size()));
        // One environment serves all programs.
        const bool is_known = name == "config" || options.sections().knows_option(name);
        if (options.find_exact(name) != nullptr || is_known) continue;
        const BoundOption* meant = options.find(name);  // an alias
        const auto nearest = options.nearest(name);
        const bool is_near = nearest && edit_distance(name, *nearest) <= name.size() / 5 + 1;
        if (meant == nullptr && is_near) meant = options.find(*nearest);
        if (meant == nullptr || name.size() < kShortestMisspelt) continue;
        options.note(fmt::format("the environment's {} is not read; did you mean {}?", variable,
                                 environment_name(meant->field().name)));
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
