// Python's spellings of values.
#include "lib/jinja/text_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {
namespace {

// Objects hold each other, and themselves, at any depth.
constexpr int kMaxFormDepth = 400;

// Throws TemplateFailure before it is too long.
class FormText {
  public:
    FormText& operator+=(std::string_view bytes) {
        if (bytes.size() > kLongestForm - text_.size()) {
            throw TemplateFailure{"a value is too long to be written out"};
        }
        text_ += bytes;
        return *this;
    }
    void push_back(char c) { *this += std::string_view(&c, 1); }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

// Of characters that Python and JSON spell alike; empty for the others.
std::string_view usual_escape(char32_t c) {
    switch (c) {
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        case '\\':
            return "\\\\";
        default:
            return {};
    }
}

void append_escape(FormText& out, char32_t c) {
    if (c < 0x100) {
        out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
        out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
}

void append_quoted(FormText& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const bool has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out.push_back(quote);
    utf8::for_each(text, [&](char32_t c, size_t at, size_t length) {
        if (const std::string_view escape = usual_escape(c); !escape.empty()) {
            out += escape;
        } else if (c == static_cast<char32_t>(quote)) {
            out.push_back('\\');
            out.push_back(quote);
        } else if (unicode::is_printable(c)) {
            out += text.substr(at, length);
        } else {
            append_escape(out, c);
        }
    });
    out.push_back(quote);
}

class ReprWriter {
  public:
    explicit ReprWriter(bool sorts_keys) : sorts_keys_(sorts_keys) {}

    void write(const Value& value) {
        if (value.is_undefined()) {
            out_ += "Undefined";
        } else if (value.is_none()) {
            out_ += "None";
        } else if (value.is_boolean()) {
            out_ += value.truth() ? "True" : "False";
        } else if (value.is_integer()) {
            out_ += std::to_string(value.as_integer());
        } else if (value.is_real()) {
            out_ += repr_of(value.as_real());
        } else if (value.is_text()) {
            write_text(value);
        } else {
            if (++depth_ > kMaxFormDepth) {
                throw TemplateFailure{"values are nested too deeply to be written out"};
            }
            if (value.is_list()) {
                write_list(value.as_list());
            } else if (value.is_dict()) {
                write_dict(value.as_dict());
            } else {
                write_object(*value.as_object());
            }
            --depth_;
        }
    }

    TrackedText take() { return TrackedText(out_.take(), holds_marks_); }

  private:
    void write_text(const Value& value) {
        holds_marks_ = holds_marks_ || value.as_text().any_marked();
        if (value.is_markup()) out_ += "Markup(";
        append_quoted(out_, value.as_text().bytes());
        if (value.is_markup()) out_ += ")";
    }

    void write_list(const List& list) {
        if (list.kind == List::Kind::generator) {
            out_ += "<generator object>";
            return;
        }
        if (list.kind == List::Kind::range) {
            out_ += list.form;
            return;
        }
        const bool tuple = list.kind == List::Kind::tuple;
        if (list.kind == List::Kind::view) out_ += list.form + "(";
        out_.push_back(tuple ? '(' : '[');
        for (size_t i = 0; i < list.items.size(); ++i) {
            if (i > 0) out_ += ", ";
            write(list.items[i]);
        }
        if (tuple && list.items.size() == 1) out_.push_back(',');
        out_.push_back(tuple ? ')' : ']');
        if (list.kind == List::Kind::view) out_ += ")";
    }

    void write_dict(const Dict& dict) {
        out_.push_back('{');
        bool first = true;
        const auto write_entry = [&](const std::pair<Value, Value>& entry) {
            if (!first) out_ += ", ";
            first = false;
            write(entry.first);
            out_ += ": ";
            write(entry.second);
        };
        if (sorts_keys_) {
            for (const auto* entry : sorted_entries(dict)) write_entry(*entry);
        } else {
            for (const auto& entry : dict.entries()) write_entry(entry);
        }
        out_.push_back('}');
    }

    void write_object(const Object& object) {
        const Value variables = object.variables();
        if (!variables.is_dict()) {
            out_ += object.text_form();
            return;
        }
        out_ += "<" + object.type_name() + " ";
        write(variables);
        out_ += ">";
    }

    FormText out_;
    bool sorts_keys_;
    bool holds_marks_ = false;
    int depth_ = 0;
};

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

    FormText out;

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
            std::string_view escape = usual_escape(c);
            if (c == '"') escape = "\\\"";
            if (c == '\f') escape = "\\f";
            if (c == '\b') escape = "\\b";
            if (!escape.empty()) {
                out += escape;
            } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
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
            write_text(plain.out.take());
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

TrackedText repr_of(const Value& value) {
    ReprWriter writer(false);
    writer.write(value);
    return writer.take();
}

TrackedText sorted_repr_of(const Value& value) {
    ReprWriter writer(true);
    writer.write(value);
    return writer.take();
}

std::vector<const std::pair<Value, Value>*> sorted_entries(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    const auto is_before = [](const auto* left, const auto* right) {
        try {
            return compare(left->first, right->first) < 0;
        } catch (const TemplateFailure&) {
            return left->first.type_name() < right->first.type_name();
        }
    };
    std::stable_sort(entries.begin(), entries.end(), is_before);
    return entries;
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
    return repr_of(value);
}

TrackedText json_of(const Value& value, const JsonStyle& style) {
    JsonWriter writer(style);
    writer.write(value, 0);
    return TrackedText(writer.out.take(), holds_marks(value));
}

}  // namespace nvllm::chat
