// Python's two ways of formatting: "%s" % values, and "{}".format(values).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/jinja/text_operations.h"

namespace nvllm::chat {
namespace {

constexpr int64_t kWidest = 10000;

// What both notations can ask of one value.
struct Style {
    std::string fill = " ";
    char align = '\0';  // < > ^ =
    char sign = '\0';   // + or space
    bool alternate = false;
    int64_t width = 0;
    std::optional<int64_t> precision;
    char grouping = '\0';
    char type = '\0';
};

std::string grouped(std::string digits, char separator) {
    for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
        digits.insert(static_cast<size_t>(at), 1, separator);
    }
    return digits;
}

std::string digits_of(const Value& value, const Style& style) {
    const int64_t number = value.as_integer();
    const uint64_t magnitude =
        number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const std::string mark = style.alternate ? std::string("0") + style.type : std::string();
    switch (style.type) {
        case 'x':
            return (style.alternate ? mark : "") + fmt::format("{:x}", magnitude);
        case 'X':
            return (style.alternate ? mark : "") + fmt::format("{:X}", magnitude);
        case 'o':
            return (style.alternate ? mark : "") + fmt::format("{:o}", magnitude);
        case 'b':
            return (style.alternate ? mark : "") + fmt::format("{:b}", magnitude);
        default:
            break;
    }
    std::string digits = fmt::format("{}", magnitude);
    return style.grouping == '\0' ? digits : grouped(digits, style.grouping);
}

std::string real_digits(double number, const Style& style) {
    const double magnitude = std::abs(number);
    const int precision = static_cast<int>(std::min(style.precision.value_or(6), kWidest));
    std::string text;
    switch (style.type) {
        case 'f':
        case 'F':
            text = fmt::format("{:.{}f}", magnitude, precision);
            break;
        case 'e':
            text = fmt::format("{:.{}e}", magnitude, precision);
            break;
        case 'E':
            text = fmt::format("{:.{}E}", magnitude, precision);
            break;
        case 'g':
            text = fmt::format("{:.{}g}", magnitude, precision);
            break;
        case 'G':
            text = fmt::format("{:.{}G}", magnitude, precision);
            break;
        case '%':
            text = fmt::format("{:.{}f}%", magnitude * 100, precision);
            break;
        default:
            text =
                style.precision ? fmt::format("{:.{}g}", magnitude, precision) : repr_of(magnitude);
            break;
    }
    if (style.grouping == '\0') return text;
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    return grouped(text.substr(0, end), style.grouping) + text.substr(end);
}

bool is_real_type(char type) {
    return type != '\0' && std::string_view("fFeEgG%").find(type) != std::string_view::npos;
}
bool is_integer_type(char type) {
    return type != '\0' && std::string_view("dxXobi").find(type) != std::string_view::npos;
}

TrackedText aligned(const TrackedText& text, const Style& style, char otherwise) {
    const auto size = static_cast<int64_t>(utf8::count(text.bytes()));
    if (style.width > kWidest) fail("a format's width is too large");
    const auto missing = static_cast<size_t>(std::max<int64_t>(style.width - size, 0));
    const char align = style.align == '\0' ? otherwise : style.align;
    if (align == '<') return padded(text, 0, missing, style.fill);
    if (align == '^') return padded(text, missing / 2, missing - missing / 2, style.fill);
    return padded(text, missing, 0, style.fill);
}

TrackedText format_number(const Value& value, const Style& style) {
    const bool real = value.is_real() || is_real_type(style.type);
    if (value.is_real() && is_integer_type(style.type)) {
        fail(std::string("Unknown format code '") + style.type + "' for object of type 'float'");
    }
    const bool negative = real ? std::signbit(value.as_real()) : value.as_integer() < 0;
    std::string sign = negative ? "-" : std::string();
    if (!negative && style.sign != '\0') sign = style.sign;
    std::string digits = real ? real_digits(value.as_real(), style) : digits_of(value, style);
    if (style.align != '=') return aligned(TrackedText(sign + digits), style, '>');
    Style inner = style;
    inner.align = '>';
    inner.width = style.width - static_cast<int64_t>(sign.size());
    return TrackedText(sign + aligned(TrackedText(digits), inner, '>').bytes());
}

TrackedText cut(const TrackedText& text, int64_t precision) {
    size_t at = 0;
    for (; precision > 0 && at < text.size(); --precision) {
        at += utf8::length_from_lead(static_cast<unsigned char>(text.bytes()[at]));
    }
    return text.substr(0, at);
}

TrackedText format_text(const TrackedText& text, const Style& style) {
    return aligned(style.precision ? cut(text, *style.precision) : text, style, '<');
}

// A number within a format; moves past it.
int64_t read_number(std::string_view text, size_t& at) {
    int64_t number = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        number = std::min<int64_t>(number * 10 + (text[at] - '0'), kWidest + 1);
        ++at;
    }
    return number;
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Style parse_style(std::string_view text) {
    Style style;
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (!text.empty()) {
        const size_t first = utf8::decode(text).length;
        if (first < text.size() && is_align(text[first])) {
            style.fill = text.substr(0, first);
            style.align = text[first];
            at = first + 1;
        } else if (is_align(text[0])) {
            style.align = text[0];
            at = 1;
        }
    }
    const auto take = [&](char c) {
        if (at >= text.size() || text[at] != c) return false;
        ++at;
        return true;
    };
    if (at < text.size() && (text[at] == '+' || text[at] == ' ' || text[at] == '-')) {
        if (text[at] != '-') style.sign = text[at];
        ++at;
    }
    style.alternate = take('#');
    if (take('0') && style.align == '\0') {
        style.fill = "0";
        style.align = '=';
    }
    style.width = read_number(text, at);
    if (take(',')) style.grouping = ',';
    if (take('_')) style.grouping = '_';
    if (take('.')) style.precision = read_number(text, at);
    if (at < text.size()) style.type = text[at++];
    if (at != text.size()) fail("Invalid format specifier");
    return style;
}

TrackedText apply_style(const Value& value, std::string_view specification) {
    if (specification.empty()) return text_of(value);
    const Style style = parse_style(specification);
    if (value.is_number() && !(value.is_boolean() && style.type == '\0')) {
        if (style.type == 's')
            fail("Unknown format code 's' for object of type '" + value.type_name() + "'");
        return format_number(value, style);
    }
    if (style.type != '\0' && style.type != 's') {
        fail(std::string("Unknown format code '") + style.type + "' for object of type '" +
             value.type_name() + "'");
    }
    Style for_text = style;
    if (for_text.align == '=') for_text.align = '<';
    return format_text(text_of(value), for_text);
}

// "{}".format(...): one pass over the text, fields looked up in the arguments.
class BraceFormat {
  public:
    BraceFormat(Interpreter& interpreter, const Arguments& arguments)
        : interpreter_(interpreter), arguments_(arguments) {}

    TrackedText run(const TrackedText& format, int depth) {
        if (depth > 2) fail("Max string recursion exceeded");
        const std::string_view text = format.bytes();
        TrackedText out;
        for (size_t at = 0; at < text.size();) {
            const char c = text[at];
            if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
                out.append(format.substr(at, at + 1));
                at += 2;
            } else if (c == '{') {
                const size_t end = field_end(text, at + 1);
                out.append(field(format, at + 1, end, depth));
                at = end + 1;
            } else if (c == '}') {
                fail("Single '}' encountered in format string");
            } else {
                const size_t end = std::min(text.find_first_of("{}", at), text.size());
                out.append(format.substr(at, end));
                at = end;
            }
        }
        return out;
    }

  private:
    static size_t field_end(std::string_view text, size_t at) {
        int open = 1;
        for (; at < text.size(); ++at) {
            if (text[at] == '{') ++open;
            if (text[at] == '}' && --open == 0) return at;
        }
        fail("expected '}' before end of string");
    }

    TrackedText field(const TrackedText& format, size_t begin, size_t end, int depth) {
        const std::string_view text = std::string_view(format.bytes()).substr(begin, end - begin);
        const size_t name_end = std::min(text.find_first_of("!:"), text.size());
        Value value = lookup(text.substr(0, name_end));
        size_t at = name_end;
        if (at < text.size() && text[at] == '!') {
            if (at + 1 >= text.size()) fail("end of string while looking for conversion specifier");
            const char conversion = text[at + 1];
            if (conversion == 'r' || conversion == 'a') {
                value = Value::text(repr_of(value));
            } else if (conversion == 's') {
                value = Value::text(text_of(value));
            } else {
                fail("Unknown conversion specifier");
            }
            at += 2;
        }
        if (at >= text.size()) return text_of(value);
        if (text[at] != ':') fail("expected ':' after conversion specifier");
        const TrackedText style = run(format.substr(begin + at + 1, end), depth + 1);
        return apply_style(value, style.bytes());
    }

    Value lookup(std::string_view path) {
        const size_t name_end = std::min(path.find_first_of(".["), path.size());
        Value value = argument(path.substr(0, name_end));
        for (size_t at = name_end; at < path.size();) {
            if (path[at] == '.') {
                const size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
                value = interpreter_.attribute(value, path.substr(at + 1, end - at - 1));
                at = end;
            } else {
                const size_t end = path.find(']', at);
                if (end == std::string_view::npos) fail("Missing ']' in format string");
                const std::string_view key = path.substr(at + 1, end - at - 1);
                size_t digits = 0;
                const int64_t index = read_number(key, digits);
                const bool number = !key.empty() && digits == key.size();
                value = interpreter_.item(value, number ? Value::integer(index) : Value::text(key));
                at = end + 1;
                if (at < path.size() && path[at] != '.' && path[at] != '[') {
                    fail("Only '.' or '[' may follow ']' in format field specifier");
                }
            }
        }
        return value;
    }

    Value argument(std::string_view name) {
        size_t digits = 0;
        const int64_t number = read_number(name, digits);
        if (name.empty() || digits == name.size()) {
            const size_t index = name.empty() ? next_++ : static_cast<size_t>(number);
            if (index >= arguments_.positional.size()) {
                fail("Replacement index " + std::to_string(index) +
                     " out of range for positional args tuple");
            }
            return arguments_.positional[index];
        }
        for (const auto& [known, value] : arguments_.named) {
            if (known == name) return value;
        }
        fail("'" + std::string(name) + "'");
    }

    Interpreter& interpreter_;
    const Arguments& arguments_;
    size_t next_ = 0;
};

// "%s" % values: one pass, values taken in order or by name.
class PercentFormat {
  public:
    explicit PercentFormat(const Value& values) : values_(values) {
        if (values.is_list() && values.as_list().kind == List::Kind::tuple) {
            list_ = values.as_list().items;
        } else {
            list_ = {values};
        }
    }

    TrackedText run(const TrackedText& format) {
        const std::string_view text = format.bytes();
        TrackedText out;
        for (size_t at = 0; at < text.size();) {
            const size_t mark = std::min(text.find('%', at), text.size());
            out.append(format.substr(at, mark));
            at = mark;
            if (at == text.size()) break;
            ++at;
            directive(text, at, out);
        }
        const bool tuple = values_.is_list() && values_.as_list().kind == List::Kind::tuple;
        const bool ignorable =
            values_.is_dict() || values_.is_undefined() || (values_.is_list() && !tuple);
        if (used_ < list_.size() && !named_ && !ignorable) {
            fail("not all arguments converted during string formatting");
        }
        return out;
    }

  private:
    const Value& next() {
        if (used_ >= list_.size()) fail("not enough arguments for format string");
        return list_[used_++];
    }

    int64_t width(std::string_view text, size_t& at) {
        if (at >= text.size() || text[at] != '*') return read_number(text, at);
        ++at;
        return integer_of(next(), "a format's width");
    }

    void directive(std::string_view text, size_t& at, TrackedText& out) {
        const Value* value = nullptr;
        if (at < text.size() && text[at] == '(') {
            const size_t close = text.find(')', at);
            if (close == std::string_view::npos) fail("incomplete format key");
            if (!values_.is_dict()) fail("format requires a mapping");
            value = values_.as_dict().find(text.substr(at + 1, close - at - 1));
            if (value == nullptr) fail("the format names a key that is not there");
            named_ = true;
            at = close + 1;
        }
        Style style;
        bool left = false;
        for (;
             at < text.size() && std::string_view("#0- +").find(text[at]) != std::string_view::npos;
             ++at) {
            if (text[at] == '-') left = true;
            if (text[at] == '0') style.fill = "0";
            if (text[at] == '+') style.sign = '+';
            if (text[at] == ' ' && style.sign == '\0') style.sign = ' ';
            if (text[at] == '#') style.alternate = true;
        }
        style.width = width(text, at);
        if (style.width < 0) {
            left = true;
            style.width = -style.width;
        }
        if (at < text.size() && text[at] == '.') {
            ++at;
            style.precision = width(text, at);
        }
        while (at < text.size() && (text[at] == 'l' || text[at] == 'h' || text[at] == 'L')) ++at;
        if (at >= text.size()) fail("incomplete format");
        style.type = text[at++];
        if (style.type == '%') {
            out.append("%");
            return;
        }
        if (left) {
            style.align = '<';
            style.fill = " ";
        } else {
            style.align = style.fill == "0" ? '=' : '>';
        }
        convert(value != nullptr ? *value : next(), style, out);
    }

    void convert(const Value& value, Style style, TrackedText& out) {
        if (style.type == 's' || style.type == 'r' || style.type == 'a' || style.type == 'c') {
            if (style.align == '=') style.align = '>';
            style.fill = " ";
            if (style.type == 'c' && value.is_integer()) {
                std::string letter;
                utf8::append(letter, static_cast<char32_t>(
                                         std::clamp<int64_t>(value.as_integer(), 0, 0x110000)));
                out.append(format_text(TrackedText(letter), style));
                return;
            }
            const bool plain = style.type == 's' || style.type == 'c';
            out.append(format_text(plain ? text_of(value) : repr_of(value), style));
            return;
        }
        if (!value.is_number()) {
            fail(std::string("%") + style.type + " format: a real number is required, not " +
                 value.type_name());
        }
        if (style.type == 'i' || style.type == 'u') style.type = 'd';
        if (!is_real_type(style.type) && !is_integer_type(style.type)) {
            fail(std::string("unsupported format character '") + style.type + "'");
        }
        if (is_integer_type(style.type) && value.is_real()) {
            const double number = value.as_real();
            if (!(std::abs(number) < 9.2e18)) fail("a number is too large");
            out.append(format_number(Value::integer(static_cast<int64_t>(number)), style));
        } else {
            out.append(format_number(value, style));
        }
    }

    const Value& values_;
    std::vector<Value> list_;
    size_t used_ = 0;
    bool named_ = false;
};

}  // namespace

TrackedText format_percent(Interpreter&, const TrackedText& format, const Value& values) {
    return PercentFormat(values).run(format);
}

TrackedText format_braces(Interpreter& interpreter, const TrackedText& format,
                          const Arguments& arguments) {
    return BraceFormat(interpreter, arguments).run(format, 0);
}

}  // namespace nvllm::chat
