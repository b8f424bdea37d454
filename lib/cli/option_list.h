// One list of fields for each options struct: names, help, ranges, and how to set and show the
// member.
//
//     OptionList<EngineConfig> list("engine");
//     list.group("Scheduling");
//     list.add("max-num-seqs", &EngineConfig::max_num_seqs, "Sequences computed at once.", range(1,
//     4096));
//
// Members may be integers, floating point, bool, std::string, paths, vectors of these, and
// std::optional of all: an empty optional means that the default is decided later. Enums are listed
// with add_choice. A struct that contains options structs of other parts joins their lists with
// include(), or names one member of a part with nested().
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm {

enum class OptionKind {
    integer,
    number,
    boolean,
    text,
    size,    // an integer with suffixes: see parse_size
    choice,  // one of a few words
};

struct OptionField {
    std::string name;  // "max-num-seqs": the flag without dashes, the key in files
    OptionKind kind = OptionKind::text;
    bool is_list = false;
    bool is_optional = false;
    std::string help;
    std::string group;    // heading in --help
    std::string section;  // key in files under which the field may stand
    std::string value_name;
    std::string range_text;    // "1 to 4096", "at least 1"
    std::string default_text;  // when it says more than the member's own default
    std::optional<char> short_name;
    std::vector<std::string> aliases;
    std::vector<std::string> choices;
    std::vector<std::string> words;         // offered where others are taken too
    std::vector<std::string> unlisted;      // words that are taken as well and shown nowhere
    bool is_positional = false;             // also taken without a flag, in the order of the list
    bool shows_bytes = false;               // printed with KiB, MiB, ...
    bool is_secret = false;                 // never printed
    std::optional<std::string> bare_value;  // what the flag means when no value follows it
    bool is_general = false;                // every program has it, and files do not
    bool refuses_empty = false;             // "" is no value
    bool is_named_once = false;  // two different values in one command line are a mistake
    bool takes_several = false;  // of a list: more words may follow one flag
    bool counts_gib = false;     // a size whose small numbers without a unit are GiB
    std::string form;            // what a value looks like, where the kind does not say it

    // "a whole number from 1 to 4096", "one of auto, float32": completes "... is not".
    std::string expectation() const;
};

// What may follow the help text in OptionList::add: inclusive bounds.
template <typename Low, typename High>
struct OptionRange {
    Low low;
    High high;
};
template <typename Low, typename High>
OptionRange<Low, High> range(Low low, High high) {
    return {low, high};
}
template <typename Low>
struct OptionMinimum {
    Low low;
};
template <typename Low>
OptionMinimum<Low> at_least(Low low) {
    return {low};
}

// A change of the field alone.
using OptionDetail = std::function<void(OptionField&)>;

OptionDetail alias(std::string name);
OptionDetail short_name(char letter);
OptionDetail choices(std::vector<std::string> words);   // for text members
OptionDetail words(std::vector<std::string> some);      // what completion offers of a text's values
OptionDetail unlisted(std::vector<std::string> words);  // besides choices: what only tests use
OptionDetail takes_suffixes();                          // counts: 32k
OptionDetail counts_bytes();                            // sizes in bytes: 4GiB
OptionDetail counts_gib();  // sizes in bytes, of which a number below a million alone is GiB
OptionDetail value_name(std::string name);
OptionDetail default_text(std::string text);
OptionDetail positional();
// The flag may stand alone, and then has this value; what follows it is its value unless it begins
// with a dash.
OptionDetail bare_value(std::string text);
OptionDetail secret();
OptionDetail refuses_empty();
OptionDetail named_once();
// The flag takes every word behind it, when the positional argument is given elsewhere; a value
// that is a list of texts in JSON is several.
OptionDetail takes_several();
OptionDetail form(std::string text);  // "METRIC OP NUMBER": completes "... is not"

// A bound, as the member's type.
template <typename T>
struct OptionBounds {
    std::optional<T> low, high;

    bool contain(const T& value) const {
        return !(low && value < *low) && !(high && value > *high);
    }
};

// How one value of T is read and written. REQUIRES of a specialization: kind, parse, format.
template <typename T>
struct OptionType;

template <std::integral T>
struct OptionType<T> {
    static constexpr OptionKind kind = OptionKind::integer;
    static std::optional<T> parse(const OptionField& field, const std::string& text) {
        if (field.kind != OptionKind::size) return parse_integer<T>(text);
        const auto value = field.counts_gib ? parse_gib_size(text) : parse_size(text);
        if (!value || !std::in_range<T>(*value)) return std::nullopt;
        return static_cast<T>(*value);
    }
    static std::string format(const OptionField& field, T value) {
        if (field.shows_bytes) {
            const std::string text = format_bytes(static_cast<uint64_t>(value));
            return field.counts_gib && is_bare_gib(text) ? text + "B" : text;
        }
        return std::to_string(value);
    }
};

template <std::floating_point T>
struct OptionType<T> {
    static constexpr OptionKind kind = OptionKind::number;
    static std::optional<T> parse(const OptionField&, const std::string& text) {
        const auto value = parse_number(text);
        if (!value) return std::nullopt;
        return static_cast<T>(*value);
    }
    static std::string format(const OptionField&, T value) { return format_value(value); }
};

template <>
struct OptionType<bool> {
    static constexpr OptionKind kind = OptionKind::boolean;
    static std::optional<bool> parse(const OptionField&, const std::string& text) {
        return parse_boolean(text);
    }
    static std::string format(const OptionField&, bool value) { return format_value(value); }
};

template <>
struct OptionType<std::string> {
    static constexpr OptionKind kind = OptionKind::text;
    static std::optional<std::string> parse(const OptionField& field, const std::string& text) {
        for (const auto* words : {&field.choices, &field.unlisted}) {
            for (const std::string& word : *words) {
                if (word == text) return text;
            }
        }
        if (!field.choices.empty()) return std::nullopt;
        return text;
    }
    static std::string format(const OptionField&, const std::string& value) { return value; }
};

template <>
struct OptionType<std::filesystem::path> {
    static constexpr OptionKind kind = OptionKind::text;
    static std::optional<std::filesystem::path> parse(const OptionField&, const std::string& text) {
        return std::filesystem::path(text);
    }
    static std::string format(const OptionField&, const std::filesystem::path& value) {
        return value.string();
    }
};

// What a member holds below std::optional and std::vector.
template <typename T>
struct OptionMember {
    using Value = T;
    static constexpr bool is_list = false, is_optional = false;
};
template <typename T>
struct OptionMember<std::optional<T>> {
    using Value = T;
    static constexpr bool is_list = false, is_optional = true;
};
template <typename T>
struct OptionMember<std::vector<T>> {
    using Value = T;
    static constexpr bool is_list = true, is_optional = false;
};

// Reads all texts into the member; gives back the first that is no valid value, and leaves the
// member alone then.
using OptionSetter = std::function<std::optional<std::string>(const OptionField&, void*,
                                                              std::span<const std::string>)>;
// The member as texts: none for an empty optional or list.
using OptionGetter = std::function<std::vector<std::string>(const OptionField&, const void*)>;

struct TypedOptionField {
    OptionField field;
    OptionSetter set;
    OptionGetter get;
};

// A member of a member of an options struct, for OptionList::add and add_choice. More than 2
// levels: nested(&A::b, &B::c, &C::d).
template <typename First, typename... Others>
auto nested(First first, Others... others) {
    return [=](auto& object) -> auto& {
        if constexpr (sizeof...(Others) == 0) {
            return object.*first;
        } else {
            return nested(others...)(object.*first);
        }
    };
}

template <typename Struct>
class OptionList {
  public:
    // `section`: the key under which a configuration file may gather these fields.
    explicit OptionList(std::string section) : section_(std::move(section)) {}

    // The heading of the fields added from here on.
    void group(std::string heading) { group_ = std::move(heading); }

    // `member`: a pointer to a member of Struct, or nested().
    template <typename Access, typename... Details>
    void add(std::string name, Access member, std::string help, const Details&... details) {
        using Value = typename OptionMember<MemberOf<Access>>::Value;
        TypedOptionField& added =
            start<MemberOf<Access>>(std::move(name), std::move(help), OptionType<Value>::kind);
        OptionBounds<Value> bounds;
        apply_all(added.field, bounds, details...);
        const auto parse = [bounds](const OptionField& field, const std::string& text) {
            std::optional<Value> value = OptionType<Value>::parse(field, text);
            if (value && !bounds.contain(*value)) value.reset();
            return value;
        };
        finish(added, member, parse, &OptionType<Value>::format);
    }

    // For enums: the words and what they stand for.
    template <typename Enum, typename Access, typename... Details>
    void add_choice(std::string name, Access member, std::string help,
                    std::vector<std::pair<std::string, Enum>> words, const Details&... details) {
        TypedOptionField& added =
            start<MemberOf<Access>>(std::move(name), std::move(help), OptionKind::choice);
        for (const auto& [word, value] : words) added.field.choices.push_back(word);
        (apply_detail(added.field, details), ...);
        const auto parse = [words](const OptionField&, const std::string& text) {
            std::optional<Enum> found;
            for (const auto& [word, value] : words) {
                if (word == text) found = value;
            }
            return found;
        };
        const auto format = [words](const OptionField&, Enum value) {
            for (const auto& [word, meaning] : words) {
                if (meaning == value) return word;
            }
            return std::string();
        };
        finish(added, member, parse, format);
    }

    // Appends the options of `part`, whose list this is, with their headings and in their order.
    // In files they stand under this list's section.
    template <typename Part, typename Access>
    void include(Access part, const OptionList<Part>& list) {
        for (const TypedOptionField& field : list.fields()) {
            TypedOptionField& added = fields_.emplace_back();
            added.field = field.field;
            added.field.section = section_;
            added.set = [part, set = field.set](const OptionField& option, void* object,
                                                std::span<const std::string> texts) {
                return set(option, &std::invoke(part, *static_cast<Struct*>(object)), texts);
            };
            added.get = [part, get = field.get](const OptionField& option, const void* object) {
                return get(option, &std::invoke(part, *static_cast<const Struct*>(object)));
            };
        }
    }

    const std::vector<TypedOptionField>& fields() const { return fields_; }

  private:
    template <typename Access>
    using MemberOf = std::remove_cvref_t<std::invoke_result_t<Access, Struct&>>;

    template <typename Member>
    TypedOptionField& start(std::string name, std::string help, OptionKind kind) {
        TypedOptionField& added = fields_.emplace_back();
        added.field.name = std::move(name);
        added.field.help = std::move(help);
        added.field.kind = kind;
        added.field.group = group_;
        added.field.section = section_;
        added.field.is_list = OptionMember<Member>::is_list;
        added.field.is_optional = OptionMember<Member>::is_optional;
        return added;
    }

    // Bounds come last: how they are written depends on the other details.
    template <typename Value, typename... Details>
    static void apply_all(OptionField& field, OptionBounds<Value>& bounds,
                          const Details&... details) {
        (apply_detail(field, details), ...);
        (apply_bounds(field, bounds, details), ...);
    }
    template <typename Detail>
    static void apply_detail(OptionField& field, const Detail& detail) {
        if constexpr (std::is_invocable_v<Detail, OptionField&>) detail(field);
    }
    template <typename Value>
    static void apply_bounds(OptionField&, OptionBounds<Value>&, const OptionDetail&) {}
    template <typename Value, typename Low, typename High>
    static void apply_bounds(OptionField& field, OptionBounds<Value>& bounds,
                             const OptionRange<Low, High>& range) {
        bounds.low = static_cast<Value>(range.low);
        bounds.high = static_cast<Value>(range.high);
        field.range_text = OptionType<Value>::format(field, *bounds.low) + " to " +
                           OptionType<Value>::format(field, *bounds.high);
    }
    template <typename Value, typename Low>
    static void apply_bounds(OptionField& field, OptionBounds<Value>& bounds,
                             const OptionMinimum<Low>& minimum) {
        bounds.low = static_cast<Value>(minimum.low);
        field.range_text = "at least " + OptionType<Value>::format(field, *bounds.low);
    }

    template <typename Access, typename Parse, typename Format>
    static void finish(TypedOptionField& added, Access member, Parse parse, Format format) {
        using Member = MemberOf<Access>;
        using Value = typename OptionMember<Member>::Value;
        added.set = [member, parse](
                        const OptionField& field, void* object,
                        std::span<const std::string> texts) -> std::optional<std::string> {
            std::vector<Value> values;
            for (const std::string& text : texts) {
                std::optional<Value> value = parse(field, text);
                if (!value) return text;
                values.push_back(std::move(*value));
            }
            Member& target = std::invoke(member, *static_cast<Struct*>(object));
            if constexpr (OptionMember<Member>::is_list) {
                target = std::move(values);
            } else {
                NVLLM_CHECK(values.size() == 1,
                            "an option of one value was given " + std::to_string(texts.size()));
                target = values[0];
            }
            return std::nullopt;
        };
        added.get = [member, format](const OptionField& field, const void* object) {
            const Member& source = std::invoke(member, *static_cast<const Struct*>(object));
            std::vector<std::string> texts;
            if constexpr (OptionMember<Member>::is_list) {
                for (const auto& value : source) texts.push_back(format(field, value));
            } else if constexpr (OptionMember<Member>::is_optional) {
                if (source) texts.push_back(format(field, *source));
            } else {
                texts.push_back(format(field, source));
            }
            return texts;
        };
    }

    std::string section_;
    std::string group_ = "Options";
    std::vector<TypedOptionField> fields_;
};

}  // namespace nvllm
