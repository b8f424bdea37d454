#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/base/json.h"
#include "lib/grammar/schema/formats.h"
#include "lib/grammar/schema/pattern.h"
#include "lib/grammar/schema/schema_shapes.h"

namespace nvllm {
namespace {

// The engine counts digits of a remainder; of larger steps only the first multiples are allowed.
constexpr int64_t kMaxStep = 1024;
constexpr int64_t kMultiplesListed = 1000;
constexpr int64_t kMaxRangeOfMultiples = 10000;
constexpr double kLargestWhole = 9e18;
// No answer has so many characters: a larger bound is none.
constexpr int64_t kMostCharacters = int64_t{1} << 30;

struct Range {
    double least = -std::numeric_limits<double>::infinity();
    bool above = false;  // more than that
    double most = std::numeric_limits<double>::infinity();
    bool below = false;
    SchemaJson least_written, most_written;

    void at_least(const SchemaJson& value, bool exclusive) {
        const double number = value.get<double>();
        if (number < least || (number == least && !exclusive)) return;
        least = number;
        above = exclusive;
        least_written = value;
    }
    void at_most(const SchemaJson& value, bool exclusive) {
        const double number = value.get<double>();
        if (number > most || (number == most && !exclusive)) return;
        most = number;
        below = exclusive;
        most_written = value;
    }
    bool empty() const { return least > most || (least == most && (above || below)); }
};

const SchemaJson* number_keyword(const ShapeContext& context, const SchemaJson* node,
                                 const char* keyword) {
    const auto found = node->find(keyword);
    if (found == node->end()) return nullptr;
    if (!found->is_number())
        context.document.refuse(node, "\"" + std::string(keyword) + "\" is a number");
    return &*found;
}

Range range_of(const ShapeContext& context) {
    Range range;
    for (const SchemaPart& part : context.held.parts) {
        if (const auto* value = number_keyword(context, part.node, "minimum"))
            range.at_least(*value, false);
        if (const auto* value = number_keyword(context, part.node, "exclusiveMinimum"))
            range.at_least(*value, true);
        if (const auto* value = number_keyword(context, part.node, "maximum"))
            range.at_most(*value, false);
        if (const auto* value = number_keyword(context, part.node, "exclusiveMaximum"))
            range.at_most(*value, true);
    }
    return range;
}

// The smallest whole number that is a multiple of `step`, a decimal: of 0.5 it is 1, of 1.5 it
// is 3. 0: there is none of reasonable size.
int64_t whole_step(double step) {
    for (double denominator = 1; denominator <= 1e9; denominator *= 10) {
        const double numerator = step * denominator;
        if (numerator > 1e15) return 0;
        if (std::fabs(numerator - std::round(numerator)) > 1e-9 * numerator) continue;
        const auto above = static_cast<int64_t>(std::llround(numerator));
        const auto below = static_cast<int64_t>(denominator);
        return above == 0 ? 0 : above / std::gcd(above, below);
    }
    return 0;
}

// Of all "multipleOf" together; 1: there is none that matters. `whole`: the values are whole.
int64_t step_of(const ShapeContext& context, bool& whole) {
    int64_t step = 1;
    for (const SchemaPart& part : context.held.parts) {
        const auto* value = number_keyword(context, part.node, "multipleOf");
        if (value == nullptr) continue;
        const double given = value->get<double>();
        if (given <= 0) context.document.refuse(part.node, "\"multipleOf\" is more than 0");
        const bool is_whole = std::floor(given) == given;
        if (!whole && !is_whole)
            context.document.refuse(part.node,
                                    "\"multipleOf\" " + write_json(*value) +
                                        " is not supported for numbers that need not be whole");
        const int64_t mine = whole_step(given);
        if (mine == 0 || step > kLargestWhole / static_cast<double>(mine))
            context.document.refuse(part.node,
                                    "\"multipleOf\" " + write_json(*value) + " is not supported");
        whole = true;
        step = std::lcm(step, mine);
    }
    return step;
}

// All multiples in the range, nearest to 0 first; at most kMultiplesListed on each side.
SchemaJson listed_multiples(int64_t step, double least, double most) {
    SchemaJson values = SchemaJson::array();
    const auto add = [&](double value) {
        if (value >= least && value <= most && std::fabs(value) < kLargestWhole)
            values.push_back(static_cast<int64_t>(value));
    };
    const auto size = static_cast<double>(step);
    double from = 0;
    if (least > 0) from = std::ceil(least / size);
    if (most < 0) from = std::floor(most / size);
    add(from * size);
    for (int64_t i = 1; i <= kMultiplesListed; ++i) {
        add((from + static_cast<double>(i)) * size);
        add((from - static_cast<double>(i)) * size);
    }
    return values;
}

std::optional<SchemaJson> whole_shape(const Range& range, int64_t step) {
    double least = std::ceil(range.least), most = std::floor(range.most);
    if (range.above && least == range.least) least += 1;
    if (range.below && most == range.most) most -= 1;
    if (least > most) return std::nullopt;
    SchemaJson shape = {{"type", "integer"}};
    const bool bounded = least > -kLargestWhole && most < kLargestWhole;
    const bool endless = least < -kLargestWhole && most > kLargestWhole;
    if (step > 1 &&
        (step > kMaxStep || (!endless && (!bounded || most - least > kMaxRangeOfMultiples)))) {
        SchemaJson values = listed_multiples(step, least, most);
        if (values.empty()) return std::nullopt;
        return SchemaJson{{"enum", std::move(values)}};
    }
    if (least > -kLargestWhole) shape["minimum"] = static_cast<int64_t>(least);
    if (most < kLargestWhole) shape["maximum"] = static_cast<int64_t>(most);
    if (step > 1) {
        shape["multipleOf"] = step;
        if (bounded &&
            std::floor(most / static_cast<double>(step)) * static_cast<double>(step) < least)
            return std::nullopt;
    }
    return shape;
}

struct Lengths {
    int64_t least = 0;
    std::optional<int64_t> most;
    bool any() const { return least > 0 || most.has_value(); }
};

Lengths lengths_of(const ShapeContext& context, const char* least, const char* most) {
    Lengths lengths;
    for (const SchemaPart& part : context.held.parts) {
        if (const auto count = count_at(context, part.node, least))
            lengths.least = std::max(lengths.least, *count);
        if (const auto count = count_at(context, part.node, most))
            lengths.most = std::min(lengths.most.value_or(*count), *count);
    }
    return lengths;
}

// A pattern, where the schema has one ("pattern" or "format"), and what says so.
struct Pattern {
    std::string text = {};
    std::optional<int64_t> most = {};  // characters
};

void add_pattern(const ShapeContext& context, const SchemaJson* node, std::optional<Pattern>& found,
                 Pattern more) {
    if (found && found->text != more.text)
        context.document.refuse(node,
                                "two patterns or formats for one text are not supported together");
    if (!found) found = std::move(more);
}

std::string text_keyword(const ShapeContext& context, const SchemaJson* node, const char* keyword) {
    const SchemaJson& value = node->at(keyword);
    if (!value.is_string())
        context.document.refuse(node, "\"" + std::string(keyword) + "\" is a text");
    return value.get<std::string>();
}

std::string engine_words(const ShapeContext& context, const SchemaJson* node,
                         const std::string& pattern, PatternUse use) {
    auto words = engine_pattern(pattern, use);
    if (!words.ok()) context.document.refuse(node, words.fault().message);
    return *words;
}

std::optional<Pattern> pattern_of(const ShapeContext& context, bool typed) {
    std::optional<Pattern> found;
    for (const SchemaPart& part : context.held.parts) {
        const SchemaJson* node = part.node;
        if (node->contains("pattern")) {
            const std::string pattern = text_keyword(context, node, "pattern");
            add_pattern(context, node, found,
                        {engine_words(context, node, pattern, PatternUse::search)});
        }
        if (!typed || !node->contains("format")) continue;
        const std::string format = text_keyword(context, node, "format");
        if (is_refused_format(format))
            context.document.refuse(node,
                                    "\"format\" " + json_quoted(format) + " is not supported");
        if (const auto found_format = format_pattern(format))
            add_pattern(context, node, found,
                        {engine_words(context, node, found_format->pattern, PatternUse::whole),
                         found_format->most});
    }
    return found;
}

}  // namespace

std::optional<int64_t> count_at(const ShapeContext& context, const SchemaJson* node,
                                const char* keyword) {
    const auto* value = number_keyword(context, node, keyword);
    if (value == nullptr) return std::nullopt;
    const double number = value->get<double>();
    if (number < 0 || number != std::floor(number))
        context.document.refuse(node,
                                "\"" + std::string(keyword) + "\" is a whole number from 0 on");
    return static_cast<int64_t>(std::min(number, kLargestWhole));
}

std::vector<size_t> parts_below(const SchemaCase& held, size_t self) {
    std::vector<size_t> below = {self};
    for (size_t i = 0; i < held.parts.size(); ++i) {
        for (int up = held.parts[i].parent; up >= 0;
             up = held.parts[static_cast<size_t>(up)].parent) {
            if (static_cast<size_t>(up) != self) continue;
            below.push_back(i);
            break;
        }
    }
    return below;
}

std::optional<SchemaJson> number_shape(const ShapeContext& context, bool whole) {
    const Range range = range_of(context);
    if (range.empty()) return std::nullopt;
    bool is_whole = whole;
    const int64_t step = step_of(context, is_whole);
    if (is_whole) return whole_shape(range, step);
    SchemaJson shape = {{"type", "number"}};
    if (!range.least_written.is_null())
        shape[range.above ? "exclusiveMinimum" : "minimum"] = range.least_written;
    if (!range.most_written.is_null())
        shape[range.below ? "exclusiveMaximum" : "maximum"] = range.most_written;
    return shape;
}

std::optional<SchemaJson> string_shape(const ShapeContext& context, bool typed) {
    Lengths lengths = lengths_of(context, "minLength", "maxLength");
    SchemaJson shape = {{"type", "string"}};
    if (const auto pattern = pattern_of(context, typed)) {
        shape["pattern"] = pattern->text;
        if (pattern->most)
            lengths.most = std::min(lengths.most.value_or(*pattern->most), *pattern->most);
    }
    if (lengths.most && lengths.least > *lengths.most) return std::nullopt;
    if (lengths.least > 0) shape["minLength"] = lengths.least;
    if (lengths.most && *lengths.most < kMostCharacters) shape["maxLength"] = *lengths.most;
    return shape;
}

}  // namespace nvllm
