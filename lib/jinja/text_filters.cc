// Jinja's filters over text.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/jinja/text_operations.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {
namespace {

template <TrackedText (*change)(const TrackedText&)>
Value changed(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("filter", arguments, {});
    return interpreter.text(change(text_of(value)));
}

Value trim(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("trim", arguments, {"chars"});
    const Value* set = parameters.find(0);
    const bool all_space = set == nullptr || set->is_none();
    const std::string characters = all_space ? std::string() : text_of(*set).bytes();
    if (!all_space && characters.empty()) return interpreter.text(text_of(value));
    return interpreter.text(stripped(text_of(value), characters, true, true));
}

Value string(Interpreter& interpreter, const Value& value, Arguments&) {
    return value.is_text() ? value : interpreter.text(text_of(value));
}

Value replace(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("replace", arguments, {"old", "new", "count"});
    const Value* count = parameters.find(2);
    const TrackedText text = text_of(value);
    const TrackedText from = text_of(parameters.required(0));
    const TrackedText to = text_of(parameters.required(1));
    interpreter.charge(text.size() * (from.empty() ? 1 + to.size() : 1 + to.size() / from.size()));
    const int64_t limit = count == nullptr || count->is_none() ? -1 : integer_of(*count, "count");
    return interpreter.text(replaced(text, from, to, limit));
}

// For texts that grow by more than what they are made from.
void append_charged(Interpreter& interpreter, TrackedText& to, const TrackedText& text) {
    interpreter.charge(text.size());
    to.append(text);
}

Value join(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("join", arguments, {"d", "attribute"});
    const TrackedText separator = parameters.text(0, "");
    const Value* attribute = parameters.find(1);
    TrackedText all;
    bool first = true;
    for (const Value& item : interpreter.elements(value)) {
        if (!first) append_charged(interpreter, all, separator);
        first = false;
        if (attribute != nullptr && !attribute->is_none()) {
            Arguments lookup;
            lookup.named.emplace_back("attribute", *attribute);
            const Value mapped = interpreter.filter("map", Value::list({item}), lookup);
            append_charged(interpreter, all, text_of(mapped.as_list().items[0]));
        } else {
            append_charged(interpreter, all, text_of(item));
        }
        interpreter.step();
    }
    return interpreter.text(std::move(all));
}

// Every line but the first, and but empty ones unless asked, behind some space.
Value indent(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("indent", arguments, {"width", "first", "blank"});
    std::string space = "    ";
    if (const Value* width = parameters.find(0); width != nullptr) {
        if (width->is_text()) {
            space = width->as_text().bytes();
        } else {
            space.assign(
                static_cast<size_t>(std::clamp<int64_t>(integer_of(*width, "width"), 0, 10000)),
                ' ');
        }
    }
    if (!value.is_text()) throw TemplateFailure{"indent needs a text, not " + value.type_name()};
    // A line break is put behind the text so that its last line counts as one.
    TrackedText text = value.as_text();
    text.append("\n");
    const auto lines = lines_of(text, false);
    TrackedText out;
    if (parameters.truth(1, false)) out.append(space);
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) {
            out.append("\n");
            if (parameters.truth(2, false) || !lines[i].empty()) out.append(space);
        }
        out.append(lines[i]);
        interpreter.charge(space.size());
    }
    return interpreter.text(std::move(out));
}

Value center(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("center", arguments, {"width"});
    const Value text = interpreter.text(text_of(value));
    Arguments width;
    width.positional.push_back(Value::integer(parameters.integer(0, 80)));
    return find_text_method("center")(interpreter, text, width);
}

// The first `count` characters.
TrackedText head(const TrackedText& text, size_t count) {
    size_t at = 0;
    for (; count > 0 && at < text.size(); --count) {
        at += utf8::length_from_lead(static_cast<unsigned char>(text.bytes()[at]));
    }
    return text.substr(0, at);
}

Value truncate(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("truncate", arguments, {"length", "killwords", "end", "leeway"});
    const TrackedText text = text_of(value);
    const TrackedText end = parameters.text(2, "...");
    const int64_t length = parameters.integer(0, 255);
    const auto leeway = parameters.find(3) != nullptr && !parameters.find(3)->is_none()
                            ? parameters.integer(3, 5)
                            : 5;
    const auto size = static_cast<int64_t>(utf8::count(text.bytes()));
    const auto end_size = static_cast<int64_t>(utf8::count(end.bytes()));
    if (length < end_size || leeway < 0) throw TemplateFailure{"truncate: the length is too small"};
    if (size <= length + leeway) return interpreter.text(text);
    TrackedText kept = head(text, static_cast<size_t>(length - end_size));
    if (!parameters.truth(1, false)) {
        const size_t space = kept.bytes().rfind(' ');
        if (space != std::string::npos) kept = kept.substr(0, space);
    }
    kept.append(end);
    return interpreter.text(std::move(kept));
}

Value wordcount(Interpreter&, const Value& value, Arguments&) {
    int64_t words = 0;
    bool within = false;
    const TrackedText text = text_of(value);
    utf8::for_each(text.bytes(), [&](char32_t c, size_t, size_t) {
        const bool word = unicode::is_letter(c) || unicode::is_number(c) || c == '_';
        words += word && !within;
        within = word;
    });
    return Value::integer(words);
}

Value format(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    if (!arguments.positional.empty() && !arguments.named.empty()) {
        throw TemplateFailure{"can't handle positional and keyword arguments at the same time"};
    }
    if (arguments.named.empty()) {
        return interpreter.text(
            format_percent(interpreter, text_of(value), Value::tuple(arguments.positional)));
    }
    Dict named;
    for (const auto& [name, argument] : arguments.named)
        named.set(Value::text(std::string_view(name)), argument);
    return interpreter.text(
        format_percent(interpreter, text_of(value), make_dict(std::move(named))));
}

Value escape(Interpreter& interpreter, const Value& value, Arguments&) {
    if (value.is_markup()) return value;
    return interpreter.text(escaped_html(text_of(value)), true);
}
Value force_escape(Interpreter& interpreter, const Value& value, Arguments&) {
    return interpreter.text(escaped_html(text_of(value)), true);
}
Value safe(Interpreter& interpreter, const Value& value, Arguments&) {
    return interpreter.text(text_of(value), true);
}

Value striptags(Interpreter& interpreter, const Value& value, Arguments&) {
    const std::string text = text_of(value).bytes();
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
        const size_t close = text[at] == '<' ? text.find('>', at) : std::string::npos;
        if (close == std::string::npos) {
            out.push_back(text[at]);
        } else {
            at = close;
        }
    }
    Arguments none;
    const Value words = find_text_method("split")(
        interpreter, Value::text(TrackedText(out, holds_marks(value))), none);
    Arguments joined;
    joined.positional.push_back(words);
    return find_text_method("join")(interpreter, Value::text(std::string_view(" ")), joined);
}

Value urlencode(Interpreter& interpreter, const Value& value, Arguments&) {
    const auto quoted = [](const TrackedText& text, bool in_query) {
        std::string out;
        for (const char c : text.bytes()) {
            const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                               (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                               c == '~' || (!in_query && c == '/');
            if (in_query && c == ' ') {
                out.push_back('+');
                continue;
            }
            out +=
                plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
        return out;
    };
    if (!value.is_dict())
        return interpreter.text(TrackedText(quoted(text_of(value), false), holds_marks(value)));
    std::string all;
    for (const auto& [key, entry] : value.as_dict().entries()) {
        if (!all.empty()) all += "&";
        all += quoted(text_of(key), true) + "=" + quoted(text_of(entry), true);
    }
    return interpreter.text(TrackedText(std::move(all), holds_marks(value)));
}

Value filesizeformat(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("filesizeformat", arguments, {"binary"});
    const bool binary = parameters.truth(0, false);
    const double base = binary ? 1024 : 1000;
    constexpr std::array<const char*, 8> kDecimal = {"kB", "MB", "GB", "TB",
                                                     "PB", "EB", "ZB", "YB"};
    constexpr std::array<const char*, 8> kBinary = {"KiB", "MiB", "GiB", "TiB",
                                                    "PiB", "EiB", "ZiB", "YiB"};
    Arguments none;
    const double bytes = interpreter.filter("float", value, none).as_real();
    std::string text;
    if (bytes == 1) {
        text = "1 Byte";
    } else if (bytes < base) {
        text = fmt::format("{} Bytes", static_cast<int64_t>(bytes));
    } else {
        double unit = base;
        size_t index = 0;
        for (; index + 1 < kDecimal.size() && bytes >= unit * base; ++index) unit *= base;
        text = fmt::format("{:.1f} {}", bytes / unit, binary ? kBinary[index] : kDecimal[index]);
    }
    return interpreter.text(TrackedText(std::move(text)));
}

// Lines of at most `width` characters, broken at spaces.
Value wordwrap(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("wordwrap", arguments,
                                {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
    const auto width =
        static_cast<size_t>(std::clamp<int64_t>(parameters.integer(0, 79), 1, 1 << 20));
    const TrackedText line_end = parameters.text(2, "\n");
    TrackedText out;
    bool first_line = true;
    for (const TrackedText& line : lines_of(text_of(value), false)) {
        if (!first_line) append_charged(interpreter, out, line_end);
        first_line = false;
        size_t column = 0;
        Arguments none;
        const Value words = find_text_method("split")(interpreter, Value::text(line), none);
        for (const Value& word : words.as_list().items) {
            TrackedText rest = word.as_text();
            size_t length = utf8::count(rest.bytes());
            if (column > 0 && column + 1 + length <= width) {
                out.append(" ");
                ++column;
            } else if (column > 0) {
                append_charged(interpreter, out, line_end);
                column = 0;
            }
            while (length > width && parameters.truth(1, true)) {
                const TrackedText part = head(rest, width);
                out.append(part);
                append_charged(interpreter, out, line_end);
                rest = rest.substr(part.size(), rest.size());
                length -= width;
            }
            out.append(rest);
            column += length;
        }
    }
    return interpreter.text(std::move(out));
}

Value pprint(Interpreter& interpreter, const Value& value, Arguments&) {
    // Each level is written out once more to see whether it fits.
    interpreter.step_over(value.extent() * static_cast<uint64_t>(value.depth() + 1));
    return interpreter.text(pretty_form_of(value));
}

struct Row {
    std::string_view name;
    FilterBody body;
};

constexpr Row kRows[] = {
    {"trim", trim},
    {"string", string},
    {"lower", changed<lower_of>},
    {"upper", changed<upper_of>},
    {"capitalize", changed<capitalized>},
    {"title", changed<title_of>},
    {"replace", replace},
    {"join", join},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"wordwrap", wordwrap},
    {"format", format},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"safe", safe},
    {"striptags", striptags},
    {"urlencode", urlencode},
    {"filesizeformat", filesizeformat},
    {"pprint", pprint},
};

}  // namespace

TrackedText escaped_html(const TrackedText& text) {
    TrackedText out;
    size_t plain = 0;
    const auto escape_as = [&](size_t at, std::string_view with) {
        out.append(text.substr(plain, at));
        out.append(with);
        plain = at + 1;
    };
    for (size_t at = 0; at < text.size(); ++at) {
        switch (text.bytes()[at]) {
            case '&':
                escape_as(at, "&amp;");
                break;
            case '<':
                escape_as(at, "&lt;");
                break;
            case '>':
                escape_as(at, "&gt;");
                break;
            case '"':
                escape_as(at, "&#34;");
                break;
            case '\'':
                escape_as(at, "&#39;");
                break;
            default:
                break;
        }
    }
    out.append(text.substr(plain, text.size()));
    return out;
}

FilterBody find_text_filter(std::string_view name) {
    for (const Row& row : kRows) {
        if (row.name == name) return row.body;
    }
    return nullptr;
}

}  // namespace nvllm::chat
