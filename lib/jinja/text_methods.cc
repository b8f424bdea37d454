// The methods of Python's str that templates may call.

#include <algorithm>
#include <array>

#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/jinja/text_operations.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {

namespace {

bool is_cased(char32_t c) {
    return unicode::to_lower(c) != c || unicode::to_upper(c) != c || unicode::is_lowercase(c);
}

const TrackedText& self_text(const Value& self) { return self.as_text(); }

TrackedText text_argument(const Value& value, const char* method) {
    if (!value.is_text()) {
        throw TemplateFailure{std::string(method) + "() argument must be str, not " +
                              value.type_name()};
    }
    return value.as_text();
}

// The byte offset of the n-th character.
size_t byte_offset(std::string_view text, int64_t index) {
    const auto count = static_cast<int64_t>(utf8::count(text));
    if (index < 0) index = std::max<int64_t>(index + count, 0);
    if (index >= count) return text.size();
    size_t at = 0;
    for (; index > 0; --index) at += utf8::length_from_lead(static_cast<unsigned char>(text[at]));
    return at;
}

// The part of a text that find(), count() and the like search, from arguments `first` and on.
struct Part {
    std::string_view text;
    size_t begin = 0;
    bool possible = true;  // a start behind the end finds nothing, not even the empty text
};

Part part_of(const TrackedText& text, const Parameters& parameters, size_t first) {
    const std::string_view whole = text.bytes();
    const auto given = [&](size_t index) {
        const Value* value = parameters.find(index);
        return value != nullptr && !value->is_none();
    };
    const auto count = static_cast<int64_t>(utf8::count(whole));
    Part part;
    const int64_t from = given(first) ? integer_of(*parameters.find(first), "start") : 0;
    part.possible = from <= count;
    part.begin = byte_offset(whole, from);
    const size_t end = given(first + 1)
                           ? byte_offset(whole, integer_of(*parameters.find(first + 1), "end"))
                           : whole.size();
    part.possible = part.possible && part.begin <= end;
    part.text = part.possible ? whole.substr(part.begin, end - part.begin) : std::string_view();
    return part;
}

template <bool left, bool right>
Value strip(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("strip", arguments, {"chars"});
    const Value* set = parameters.find(0);
    const bool all_space = set == nullptr || set->is_none();
    const TrackedText characters = all_space ? TrackedText() : text_argument(*set, "strip");
    if (!all_space && characters.empty()) return self;
    return interpreter.text(stripped(self_text(self), characters.bytes(), left, right));
}

std::vector<TrackedText> split_at_space(const TrackedText& text, int64_t limit) {
    std::vector<TrackedText> parts;
    const std::string_view bytes = text.bytes();
    size_t at = 0;
    const auto space_at = [&](size_t offset) {
        return is_python_space(utf8::decode(bytes.substr(offset)).code_point);
    };
    const auto advance = [&](size_t offset) {
        return offset + utf8::length_from_lead(static_cast<unsigned char>(bytes[offset]));
    };
    while (true) {
        while (at < bytes.size() && space_at(at)) at = advance(at);
        if (at == bytes.size()) return parts;
        if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
            parts.push_back(stripped(text.substr(at, bytes.size()), "", false, true));
            return parts;
        }
        size_t end = at;
        while (end < bytes.size() && !space_at(end)) end = advance(end);
        parts.push_back(text.substr(at, end));
        at = end;
    }
}

std::vector<TrackedText> split_at_space_from_right(const TrackedText& text, int64_t limit) {
    std::vector<TrackedText> parts;
    std::string_view rest = text.bytes();
    const auto space_end = [&] {
        return is_python_space(utf8::decode(rest.substr(last_character_of(rest))).code_point);
    };
    while (true) {
        while (!rest.empty() && space_end()) rest = rest.substr(0, last_character_of(rest));
        if (rest.empty()) break;
        if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
            parts.push_back(stripped(text.substr(0, rest.size()), "", true, false));
            break;
        }
        const size_t end = rest.size();
        while (!rest.empty() && !space_end()) rest = rest.substr(0, last_character_of(rest));
        parts.push_back(text.substr(rest.size(), end));
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<TrackedText> split_by(const TrackedText& text, const std::string& separator,
                                  int64_t limit) {
    std::vector<TrackedText> parts;
    size_t at = 0;
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
        const size_t found = first_in(text.bytes(), separator, at);
        if (found == std::string::npos) break;
        parts.push_back(text.substr(at, found));
        at = found + separator.size();
    }
    parts.push_back(text.substr(at, text.size()));
    return parts;
}

std::vector<TrackedText> split_by_from_right(const TrackedText& text, const std::string& separator,
                                             int64_t limit) {
    std::vector<TrackedText> parts;
    const std::string backwards(text.bytes().rbegin(), text.bytes().rend());
    const std::string separator_backwards(separator.rbegin(), separator.rend());
    size_t end = text.size();
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
        const size_t found = first_in(backwards, separator_backwards, text.size() - end);
        if (found == std::string_view::npos) break;
        parts.push_back(text.substr(text.size() - found, end));
        end = text.size() - found - separator.size();
    }
    parts.push_back(text.substr(0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
}

Value as_list(Interpreter& interpreter, std::vector<TrackedText> parts) {
    std::vector<Value> items;
    interpreter.step(parts.size());
    for (TrackedText& part : parts) items.push_back(interpreter.text(std::move(part)));
    return Value::list(std::move(items));
}

template <bool from_right>
Value split(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("split", arguments, {"sep", "maxsplit"});
    const int64_t limit = parameters.integer(1, -1);
    const Value* separator = parameters.find(0);
    if (separator == nullptr || separator->is_none()) {
        return as_list(interpreter, from_right ? split_at_space_from_right(self_text(self), limit)
                                               : split_at_space(self_text(self), limit));
    }
    const std::string by = text_argument(*separator, "split").bytes();
    if (by.empty()) throw TemplateFailure{"empty separator"};
    return as_list(interpreter, from_right ? split_by_from_right(self_text(self), by, limit)
                                           : split_by(self_text(self), by, limit));
}

Value splitlines(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("splitlines", arguments, {"keepends"});
    return as_list(interpreter, lines_of(self_text(self), parameters.truth(0, false)));
}

Value join(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("join", arguments, {"iterable"});
    TrackedText all;
    bool first = true;
    for (const Value& item : interpreter.elements(parameters.required(0))) {
        if (!item.is_text()) {
            throw TemplateFailure{"sequence item: expected str instance, " + item.type_name() +
                                  " found"};
        }
        interpreter.charge(item.as_text().size() + (first ? 0 : self_text(self).size()));
        if (!first) all.append(self_text(self));
        first = false;
        all.append(item.as_text());
    }
    return interpreter.text(std::move(all));
}

Value replace(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("replace", arguments, {"old", "new", "count"});
    const TrackedText from = text_argument(parameters.required(0), "replace");
    const TrackedText to = text_argument(parameters.required(1), "replace");
    interpreter.charge(self_text(self).size() *
                       (from.empty() ? 1 + to.size() : 1 + to.size() / from.size()));
    return interpreter.text(replaced(self_text(self), from, to, parameters.integer(2, -1)));
}

template <TrackedText (*change)(const TrackedText&)>
Value changed(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("str", arguments, {});
    return interpreter.text(change(self_text(self)));
}

TrackedText swapped_case(const TrackedText& text) {
    return mapped_text(text, [](std::string& out, char32_t c) {
        if (unicode::is_uppercase(c)) {
            unicode::append_lower(out, c);
        } else {
            unicode::append_upper(out, c);
        }
    });
}

// str.title(): every run of cased characters begins with a capital.
TrackedText method_title(const TrackedText& text) {
    bool within = false;
    return mapped_text(text, [&](std::string& out, char32_t c) {
        if (within) {
            unicode::append_lower(out, c);
        } else {
            utf8::append(out, unicode::to_title(c));
        }
        within = is_cased(c);
    });
}

template <bool at_end>
Value affix(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters(at_end ? "endswith" : "startswith", arguments,
                                {"prefix", "start", "end"});
    const Part part = part_of(self_text(self), parameters, 1);
    const Value& wanted = parameters.required(0);
    std::vector<Value> choices = {wanted};
    if (wanted.is_list() && wanted.as_list().kind == List::Kind::tuple)
        choices = interpreter.elements(wanted);
    for (const Value& choice : choices) {
        const std::string affix = text_argument(choice, at_end ? "endswith" : "startswith").bytes();
        if (part.possible && (at_end ? part.text.ends_with(affix) : part.text.starts_with(affix))) {
            return Value::boolean(true);
        }
    }
    return Value::boolean(false);
}

template <bool from_right, bool must>
Value find(Interpreter&, const Value& self, Arguments& arguments) {
    const Parameters parameters("find", arguments, {"sub", "start", "end"});
    const Part part = part_of(self_text(self), parameters, 1);
    const std::string wanted = text_argument(parameters.required(0), "find").bytes();
    size_t found = std::string_view::npos;
    if (part.possible)
        found = from_right ? last_in(part.text, wanted) : first_in(part.text, wanted);
    if (found == std::string_view::npos) {
        if (must) throw TemplateFailure{"substring not found"};
        return Value::integer(-1);
    }
    const std::string_view before =
        std::string_view(self_text(self).bytes()).substr(0, part.begin + found);
    return Value::integer(static_cast<int64_t>(utf8::count(before)));
}

Value count(Interpreter&, const Value& self, Arguments& arguments) {
    const Parameters parameters("count", arguments, {"sub", "start", "end"});
    const Part part = part_of(self_text(self), parameters, 1);
    const std::string wanted = text_argument(parameters.required(0), "count").bytes();
    if (!part.possible) return Value::integer(0);
    if (wanted.empty()) return Value::integer(static_cast<int64_t>(utf8::count(part.text)) + 1);
    int64_t found = 0;
    for (size_t at = 0; (at = first_in(part.text, wanted, at)) != std::string_view::npos;
         at += wanted.size())
        ++found;
    return Value::integer(found);
}

template <bool at_end>
Value remove_affix(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("removeprefix", arguments, {"affix"});
    const std::string affix = text_argument(parameters.required(0), "removeprefix").bytes();
    const TrackedText& text = self_text(self);
    const size_t size = text.size();
    if (at_end) {
        if (affix.empty() || !text.bytes().ends_with(affix)) return self;
        return interpreter.text(text.substr(0, size - affix.size()));
    }
    return text.bytes().starts_with(affix) ? interpreter.text(text.substr(affix.size(), size))
                                           : self;
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("partition", arguments, {"sep"});
    const TrackedText separator = text_argument(parameters.required(0), "partition");
    if (separator.empty()) throw TemplateFailure{"empty separator"};
    const TrackedText& text = self_text(self);
    const size_t at = from_right ? last_in(text.bytes(), separator.bytes())
                                 : first_in(text.bytes(), separator.bytes());
    std::vector<Value> parts(3, Value::text(std::string_view()));
    if (at == std::string::npos) {
        parts[from_right ? 2 : 0] = self;
    } else {
        parts[0] = interpreter.text(text.substr(0, at));
        parts[1] = Value::text(separator);
        parts[2] = interpreter.text(text.substr(at + separator.size(), text.size()));
    }
    return Value::tuple(std::move(parts));
}

// The number of fill characters that a width asks for, within reason.
size_t missing_width(Interpreter& interpreter, const TrackedText& text, int64_t width) {
    const auto count = static_cast<int64_t>(utf8::count(text.bytes()));
    const auto missing = static_cast<size_t>(std::max<int64_t>(width - count, 0));
    interpreter.charge(missing);
    return missing;
}

enum class Side { left, right, middle };

template <Side side>
Value justify(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("just", arguments, {"width", "fillchar"});
    const std::string fill = parameters.text(1, " ").bytes();
    if (utf8::count(fill) != 1)
        throw TemplateFailure{"The fill character must be exactly one character long"};
    const int64_t width = integer_of(parameters.required(0), "width");
    const size_t missing = missing_width(interpreter, self_text(self), width);
    size_t before = side == Side::left ? 0 : missing;
    if (side == Side::middle) before = missing / 2 + (missing & static_cast<size_t>(width) & 1);
    return interpreter.text(padded(self_text(self), before, missing - before, fill));
}

Value zfill(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("zfill", arguments, {"width"});
    const TrackedText& text = self_text(self);
    const size_t missing =
        missing_width(interpreter, text, integer_of(parameters.required(0), "width"));
    const bool sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
    TrackedText out = text.substr(0, sign ? 1 : 0);
    out.append(std::string(missing, '0'));
    out.append(text.substr(sign ? 1 : 0, text.size()));
    return interpreter.text(std::move(out));
}

Value expandtabs(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("expandtabs", arguments, {"tabsize"});
    const int64_t size = std::clamp<int64_t>(parameters.integer(0, 8), 0, 1000);
    int64_t column = 0;
    return interpreter.text(mapped_text(self_text(self), [&](std::string& out, char32_t c) {
        if (c == '\t') {
            const int64_t spaces = size > 0 ? size - column % size : 0;
            out.append(static_cast<size_t>(spaces), ' ');
            column += spaces;
            return;
        }
        utf8::append(out, c);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }));
}

template <bool (*property)(char32_t)>
Value all_are(Interpreter&, const Value& self, Arguments&) {
    bool all = !self_text(self).empty();
    utf8::for_each(self_text(self).bytes(),
                   [&](char32_t c, size_t, size_t) { all = all && property(c); });
    return Value::boolean(all);
}

bool is_alphanumeric(char32_t c) { return unicode::is_letter(c) || unicode::is_number(c); }
bool is_ascii_character(char32_t c) { return c < 0x80; }
bool is_digit(char32_t c) {
    // Superscripts and circled digits are digits, if not decimal.
    return unicode::is_decimal_digit(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}

// Whether there is a cased character, and all of them are upper (or lower) case.
template <bool upper>
Value is_case(Interpreter&, const Value& self, Arguments&) {
    bool cased = false;
    bool all = true;
    utf8::for_each(self_text(self).bytes(), [&](char32_t c, size_t, size_t) {
        const bool is_upper = unicode::is_uppercase(c) || unicode::is_titlecase(c);
        cased = cased || is_upper || unicode::is_lowercase(c);
        all = all && !(upper ? unicode::is_lowercase(c) || unicode::is_titlecase(c) : is_upper);
    });
    return Value::boolean(cased && all);
}

Value istitle(Interpreter&, const Value& self, Arguments&) {
    bool within = false;
    bool cased = false;
    bool right = true;
    utf8::for_each(self_text(self).bytes(), [&](char32_t c, size_t, size_t) {
        if (unicode::is_uppercase(c) || unicode::is_titlecase(c)) {
            right = right && !within;
            within = cased = true;
        } else if (unicode::is_lowercase(c)) {
            right = right && within;
            within = cased = true;
        } else {
            within = false;
        }
    });
    return Value::boolean(cased && right);
}

Value isidentifier(Interpreter&, const Value& self, Arguments&) {
    bool right = !self_text(self).empty();
    utf8::for_each(self_text(self).bytes(), [&](char32_t c, size_t at, size_t) {
        right = right && (unicode::is_letter(c) || c == '_' || (at > 0 && unicode::is_word(c)));
    });
    return Value::boolean(right);
}

Value format(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    return interpreter.text(format_braces(interpreter, self_text(self), arguments));
}

Value format_map(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("format_map", arguments, {"mapping"});
    Arguments named;
    if (!parameters.required(0).is_dict()) throw TemplateFailure{"format_map() needs a mapping"};
    for (const auto& [key, value] : parameters.required(0).as_dict().entries()) {
        if (key.is_text()) named.named.emplace_back(key.as_text().bytes(), value);
    }
    return interpreter.text(format_braces(interpreter, self_text(self), named));
}

struct Row {
    std::string_view name;
    FilterBody body;
};

constexpr std::array<Row, 44> kRows = {{
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"join", join},
    {"replace", replace},
    {"lower", changed<lower_of>},
    {"casefold", changed<lower_of>},
    {"upper", changed<upper_of>},
    {"capitalize", changed<capitalized>},
    {"title", changed<method_title>},
    {"swapcase", changed<swapped_case>},
    {"startswith", affix<false>},
    {"endswith", affix<true>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"ljust", justify<Side::left>},
    {"rjust", justify<Side::right>},
    {"center", justify<Side::middle>},
    {"zfill", zfill},
    {"expandtabs", expandtabs},
    {"isalpha", all_are<unicode::is_letter>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<unicode::is_decimal_digit>},
    {"isnumeric", all_are<unicode::is_number>},
    {"isspace", all_are<is_python_space>},
    {"isprintable", all_are<unicode::is_printable>},
    {"isascii", all_are<is_ascii_character>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
    {"istitle", istitle},
    {"isidentifier", isidentifier},
    {"format", format},
    {"format_map", format_map},
}};

}  // namespace

FilterBody find_text_method(std::string_view name) {
    for (const Row& row : kRows) {
        if (row.name == name) return row.body;
    }
    return nullptr;
}

}  // namespace nvllm::chat
