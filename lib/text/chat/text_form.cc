// Python's spellings of values; nesting is bounded by Value itself.
#include "lib/text/chat/text_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/text/unicode.h"

namespace nvllm::chat {
namespace {

void append_escape(std::string& out, char32_t c) {
    if (c < 0x100) {
        out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
        out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
}

void append_quoted(std::string& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const bool has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out.push_back(quote);
    utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
        switch (c) {
            case '\n':
                out += "\\n";
                return;
            case '\r':
                out += "\\r";
                return;
            case '\t':
                out += "\\t";
                return;
            case '\\':
                out += "\\\\";
                return;
            default:
                break;
        }
        if (c == static_cast<char32_t>(quote)) {
            out.push_back('\\');
            out.push_back(quote);
        } else if (unicode::is_printable(c)) {
            out.append(text.substr(at, length));
        } else {
            append_escape(out, c);
        }
    });
    out.push_back(quote);
}

void append_repr(std::string& out, const Value& value);

void append_repr(std::string& out, const Dict& dict) {
    out.push_back('{');
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
        if (!first) out += ", ";
        first = false;
        append_repr(out, key);
        out += ": ";
        append_repr(out, value);
    }
    out.push_back('}');
}

void append_repr(std::string& out, const List& list) {
    if (list.kind == List::Kind::generator) {
        out += "<generator object>";
        return;
    }
    if (list.kind == List::Kind::range) {
        out += list.form;
        return;
    }
    const bool tuple = list.kind == List::Kind::tuple;
    if (list.kind == List::Kind::view) out += list.form + "(";
    out += tuple ? '(' : '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(out, list.items[i]);
    }
    if (tuple && list.items.size() == 1) out.push_back(',');
    out += tuple ? ')' : ']';
    if (list.kind == List::Kind::view) out += ")";
}

void append_repr(std::string& out, const Value& value) {
    if (value.is_undefined()) {
        out += "Undefined";
    } else if (value.is_none()) {
        out += "None";
    } else if (value.is_boolean()) {
        out += value.truth() ? "True" : "False";
    } else if (value.is_integer()) {
        out += std::to_string(value.as_integer());
    } else if (value.is_real()) {
        out += repr_of(value.as_real());
    } else if (value.is_text()) {
        if (value.is_markup()) out += "Markup(";
        append_quoted(out, value.as_text().bytes());
        if (value.is_markup()) out += ")";
    } else if (value.is_list()) {
        append_repr(out, value.as_list());
    } else if (value.is_dict()) {
        append_repr(out, value.as_dict());
    } else {
        out += value.as_object()->text_form();
    }
}

// json.dumps with its options.
class JsonWriter {
  public:
    explicit JsonWriter(const JsonStyle& style) : style_(style) {}

    void write(const Value& value, int level) {
        if (value.is_none()) {
            out += "null";
        } else if (value.is_boolean()) {
            out += value.truth() ? "true" : "false";
        } else if (value.is_integer()) {
            out += std::to_string(value.as_integer());
        } else if (value.is_real()) {
            out += number(value.as_real());
        } else if (value.is_text()) {
            write_text(value.as_text().bytes());
        } else if (value.is_dict()) {
            write_dict(value.as_dict(), level);
        } else if (value.is_list() && (value.as_list().kind == List::Kind::list ||
                                       value.as_list().kind == List::Kind::tuple)) {
            write_list(value.as_list(), level);
        } else {
            throw TemplateFailure{"Object of type " + value.type_name() +
                                  " is not JSON serializable"};
        }
    }

    std::string out;

  private:
    static std::string number(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
        return repr_of(value);
    }

    void escape_unit(uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

    void write_text(std::string_view text) {
        out.push_back('"');
        utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
            switch (c) {
                case '"':
                    out += "\\\"";
                    return;
                case '\\':
                    out += "\\\\";
                    return;
                case '\n':
                    out += "\\n";
                    return;
                case '\r':
                    out += "\\r";
                    return;
                case '\t':
                    out += "\\t";
                    return;
                case '\f':
                    out += "\\f";
                    return;
                case '\b':
                    out += "\\b";
                    return;
                default:
                    break;
            }
            if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
                escape_unit(static_cast<uint32_t>(c));
            } else if (style_.ensure_ascii && c >= 0x10000) {
                const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
                escape_unit(0xD800 + (rest >> 10));
                escape_unit(0xDC00 + (rest & 0x3FF));
            } else {
                out += text.substr(at, length);
            }
        });
        out.push_back('"');
    }

    void new_line(int level) {
        if (!style_.indented) return;
        out.push_back('\n');
        for (int i = 0; i < level; ++i) out += style_.indent;
    }

    // With an indent, the space behind a comma is a line break instead.
    void separate(bool first, int level) {
        if (!first) out += style_.item_separator;
        new_line(level);
    }

    void write_list(const List& list, int level) {
        if (list.items.empty()) {
            out += "[]";
            return;
        }
        out.push_back('[');
        for (size_t i = 0; i < list.items.size(); ++i) {
            separate(i == 0, level + 1);
            write(list.items[i], level + 1);
        }
        new_line(level);
        out.push_back(']');
    }

    void write_key(const Value& key) {
        if (key.is_text()) {
            write_text(key.as_text().bytes());
        } else if (key.is_none() || key.is_number()) {
            JsonWriter plain(style_);
            plain.write(key, 0);
            write_text(plain.out);
        } else {
            throw TemplateFailure{"keys must be str, int, float, bool or None, not " +
                                  key.type_name()};
        }
    }

    void write_dict(const Dict& dict, int level) {
        if (dict.size() == 0) {
            out += "{}";
            return;
        }
        std::vector<const std::pair<Value, Value>*> entries;
        for (const auto& entry : dict.entries()) entries.push_back(&entry);
        if (style_.sort_keys) {
            std::stable_sort(entries.begin(), entries.end(),
                             [](const auto* left, const auto* right) {
                                 return compare(left->first, right->first) < 0;
                             });
        }
        out.push_back('{');
        bool first = true;
        for (const auto* entry : entries) {
            separate(first, level + 1);
            first = false;
            write_key(entry->first);
            out += style_.key_separator;
            write(entry->second, level + 1);
        }
        new_line(level);
        out.push_back('}');
    }

    const JsonStyle& style_;
};

}  // namespace

std::string repr_of(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto shortest =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
    std::string text(buffer, shortest.ptr);
    const size_t mark = text.find('e');
    const int exponent = std::stoi(text.substr(mark + 1));
    if (exponent < -4 || exponent >= 16) {
        return text.substr(0, mark) +
               fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    const auto fixed =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
    text.assign(buffer, fixed.ptr);
    if (text.find('.') == std::string::npos) text += ".0";
    return text;
}

std::string repr_of(const Value& value) {
    std::string out;
    append_repr(out, value);
    return out;
}

bool holds_marks(const Value& value) {
    if (value.is_text()) return value.as_text().any_marked();
    if (value.is_list()) {
        const auto& items = value.as_list().items;
        return std::any_of(items.begin(), items.end(), holds_marks);
    }
    if (!value.is_dict()) return false;
    const auto& entries = value.as_dict().entries();
    return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
        return holds_marks(entry.first) || holds_marks(entry.second);
    });
}

TrackedText text_of(const Value& value) {
    if (value.is_text()) return value.as_text();
    if (value.is_undefined()) return {};
    return TrackedText(repr_of(value), holds_marks(value));
}

TrackedText json_of(const Value& value, const JsonStyle& style) {
    JsonWriter writer(style);
    writer.write(value, 0);
    return TrackedText(std::move(writer.out), holds_marks(value));
}

}  // namespace nvllm::chat
