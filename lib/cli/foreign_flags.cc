// Looks a flag up and takes the values that belong to it.
#include "lib/cli/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm {
namespace {

bool has_word(std::string_view list, std::string_view word) {
    const std::vector<std::string_view> words = words_of(list);
    return std::ranges::find(words, word) != words.end();
}

// The flag as it was typed, taken apart.
struct TypedFlag {
    std::string name;                  // as tables spell it
    std::optional<std::string> value;  // behind "="
    bool is_negated = false;           // "--no-name"
};

TypedFlag take_apart(const std::string& argument) {
    TypedFlag typed;
    const size_t equals = argument.find('=');
    typed.name = argument.substr(0, equals);
    if (equals != std::string::npos) typed.value = argument.substr(equals + 1);
    if (typed.name.starts_with("--")) typed.name = with_dashes(typed.name);
    const size_t dot = typed.name.find('.');
    if (dot != std::string::npos && dot > 1) typed.name.resize(dot);
    return typed;
}

// The flag's values that follow in the command line.
std::vector<std::string> following_values(const ForeignFlag& row,
                                          std::span<const std::string> rest) {
    std::vector<std::string> values;
    const bool at_most_one = row.takes != ForeignValues::many;
    for (const std::string& argument : rest) {
        if (row.takes == ForeignValues::none || (at_most_one && !values.empty())) break;
        if (row.takes == ForeignValues::maybe_one && !row.harmless.empty() &&
            !has_word(row.harmless, argument)) {
            break;
        }
        if (row.takes != ForeignValues::one && argument.starts_with('-')) break;
        values.push_back(argument);
    }
    return values;
}

std::string shown(const std::string& flag, const std::vector<std::string>& values) {
    return values.empty() ? flag : fmt::format("{} {}", flag, fmt::join(values, " "));
}

// "max-blocks", "no-log-requests", "load-format=safetensors" as arguments.
std::vector<std::string> own_arguments(const ForeignFlag& row, const TypedFlag& typed,
                                       const std::vector<std::string>& values) {
    std::string option(row.text);
    if (option.find('=') != std::string::npos) return {"--" + option};
    if (row.takes == ForeignValues::none) {
        const bool is_off = values.size() == 1 && parse_boolean(values[0]) == false;
        if (typed.is_negated == is_off) return {"--" + option};
        return {option.starts_with("no-") ? "--" + option.substr(3) : "--no-" + option};
    }
    std::vector<std::string> arguments;
    for (const std::string& value : values)
        arguments.push_back(fmt::format("--{}={}", option, value));
    return arguments;
}

// The row that is about a flag of this name with these values.
const ForeignFlag* find_row(std::span<const ForeignFlag> table, const TypedFlag& typed,
                            std::span<const std::string> rest, bool is_own) {
    for (const ForeignFlag& row : table) {
        if (!has_word(row.flags, typed.name)) continue;
        if (row.only.empty() && is_own) continue;
        if (row.only.empty()) return &row;
        const std::string* value = typed.value ? &*typed.value : rest.empty() ? nullptr : &rest[0];
        if (value != nullptr && has_word(row.only, *value)) return &row;
    }
    return nullptr;
}

ForeignReading read_row(const ForeignFlag& row, const TypedFlag& typed, const std::string& flag,
                        std::span<const std::string> rest) {
    ForeignReading reading;
    std::vector<std::string> values;
    if (typed.value) {
        values = {*typed.value};
    } else {
        values = following_values(row, rest);
        reading.num_arguments += values.size();
    }
    const bool wants_value = row.takes == ForeignValues::one || row.takes == ForeignValues::many;
    if (row.meaning == ForeignMeaning::alias) {
        if (wants_value && values.empty()) throw Error(ErrorKind::usage, flag + " needs a value");
        reading.instead = own_arguments(row, typed, values);
        return reading;
    }
    const bool is_off =
        row.takes == ForeignValues::none && values.size() == 1 && parse_boolean(values[0]) == false;
    const bool asks_for_nothing =
        typed.is_negated || is_off ||
        (!values.empty() &&
         std::ranges::all_of(values, [&](const auto& v) { return has_word(row.harmless, v); }));
    // Others may be keys.
    const bool is_about_values = !row.harmless.empty() || !row.only.empty();
    const std::string said = is_about_values ? shown(flag, values) : flag;
    if (row.meaning == ForeignMeaning::refused && !asks_for_nothing) {
        throw Error(ErrorKind::usage, fmt::format("{}: {}", said, row.text));
    }
    reading.note = fmt::format("{} does nothing here: {}", said, row.text);
    return reading;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view list) {
    std::vector<std::string_view> words;
    while (!list.empty()) {
        const size_t end = std::min(list.find(' '), list.size());
        if (end > 0) words.push_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return words;
}

std::optional<ForeignReading> read_foreign_flag(std::span<const ForeignFlag> table,
                                                std::span<const std::string> arguments,
                                                bool is_own) {
    TypedFlag typed = take_apart(arguments[0]);
    const std::string flag = arguments[0].substr(0, arguments[0].find('='));
    const std::span<const std::string> rest = arguments.subspan(1);
    const ForeignFlag* row = find_row(table, typed, rest, is_own);
    if (row == nullptr && typed.name.starts_with("--no-")) {
        typed.name.erase(2, 3);
        typed.is_negated = true;
        row = find_row(table, typed, rest, is_own);
        // Only switches have an opposite.
        if (row != nullptr && row->takes != ForeignValues::none) row = nullptr;
    }
    if (row == nullptr) return std::nullopt;
    return read_row(*row, typed, flag, rest);
}

}  // namespace nvllm
