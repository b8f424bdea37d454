// Flags that people know from other programs: one table for each such program says what every one
// means here. A flag is another name for an option, does nothing and is said to, or is refused with
// the reason; "unknown option" is for what no program has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

enum class ForeignMeaning : uint8_t { alias, ignored, refused };

// What follows the flag in the command line.
enum class ForeignValues : uint8_t {
    none,
    one,
    maybe_one,  // the next argument when it is one of the row's `harmless` words, or where it has
                // none, no flag
    many,       // every argument up to the next flag
};

struct ForeignFlag {
    // Every spelling, between spaces: "--tensor-parallel-size -tp".
    std::string_view flags;
    ForeignValues takes;
    ForeignMeaning meaning;
    // alias: an option of this program, "no-" in front for the opposite of a switch, "=VALUE"
    // behind when the value is a fixed one; else why it does nothing, or why it is refused.
    std::string_view text;
    // refused: words, between spaces, that ask for what is done anyway: with these it does nothing.
    std::string_view harmless = {};
    // The row is about these values alone, between spaces. Such a row may stand for a flag that the
    // program has itself.
    std::string_view only = {};
};

constexpr ForeignFlag foreign_alias(std::string_view flags, ForeignValues takes,
                                    std::string_view option, std::string_view only = {}) {
    return {flags, takes, ForeignMeaning::alias, option, {}, only};
}
constexpr ForeignFlag foreign_ignored(std::string_view flags, ForeignValues takes,
                                      std::string_view why, std::string_view only = {}) {
    return {flags, takes, ForeignMeaning::ignored, why, {}, only};
}
constexpr ForeignFlag foreign_refused(std::string_view flags, ForeignValues takes,
                                      std::string_view why, std::string_view harmless = {},
                                      std::string_view only = {}) {
    return {flags, takes, ForeignMeaning::refused, why, harmless, only};
}

// The words of a row's lists.
std::vector<std::string_view> words_of(std::string_view list);

// What stands in place of a foreign flag and its values.
struct ForeignReading {
    std::vector<std::string> instead;  // arguments of this program
    std::string note;                  // empty, or a sentence for people
    size_t num_arguments = 1;          // that were read, the flag among them
};

// Reads the flag that `arguments` begin with, with dashes or underscores, also as "--no-flag" and
// "--flag=value"; a name with a key behind a dot, "--speculative-config.method", is that name.
// `is_own`: the program has an option of this name, so only rows of single values count. Nothing
// when no row is about it. Throws usage with the reason when it is refused.
std::optional<ForeignReading> read_foreign_flag(std::span<const ForeignFlag> table,
                                                std::span<const std::string> arguments,
                                                bool is_own);

}  // namespace nvllm
