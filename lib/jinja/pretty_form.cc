// Python's pprint: values on several lines where one is too short.
#include <algorithm>

#include "lib/base/utf8.h"
#include "lib/jinja/text_form.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {
namespace {

constexpr int64_t kWidth = 80;

int64_t width_of(std::string_view text) { return static_cast<int64_t>(utf8::count(text)); }

std::string repr_of_text(std::string_view text) { return repr_of(Value::text(text)).bytes(); }

// Where a piece of the text ends that begins at `at`: behind the next line end, or behind the next
// run of spaces.
size_t line_end(std::string_view text, size_t at) {
    const size_t found = text.find_first_of("\n\r\v\f", at);
    if (found == std::string_view::npos) return text.size();
    return found + (text.substr(found, 2) == "\r\n" ? 2 : 1);
}
size_t word_end(std::string_view text, size_t at) {
    bool in_space = false;
    while (at < text.size()) {
        const auto next = utf8::decode(text.substr(at));
        const bool is_space = unicode::is_white_space(next.code_point);
        if (in_space && !is_space) break;
        in_space = is_space;
        at += next.length;
    }
    return at;
}

std::vector<std::string_view> pieces_of(std::string_view text,
                                        size_t (*end_of)(std::string_view, size_t)) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size();) {
        const size_t end = end_of(text, at);
        pieces.push_back(text.substr(at, end - at));
        at = end;
    }
    return pieces;
}

// Names are those of Python's PrettyPrinter: `indent` is the column, `allowance` the
// number of characters that must fit on the line after the value.
class PrettyWriter {
  public:
    void write(const Value& value, int64_t indent, int64_t allowance, int level) {
        const std::string form = sorted_repr_of(value).bytes();
        const bool fits = width_of(form) <= kWidth - indent - allowance;
        if (!fits && value.is_dict()) {
            write_dict(value.as_dict(), indent, allowance + 1, level + 1);
        } else if (!fits && value.is_list()) {
            write_list(value.as_list(), form, indent, allowance, level + 1);
        } else if (!fits && value.is_text() && !value.is_markup()) {
            write_text(value.as_text().bytes(), indent, allowance, level + 1);
        } else {
            add(form);
        }
    }

    std::string take() { return std::move(out_); }

  private:
    void add(std::string_view text) {
        if (text.size() > kLongestForm - out_.size()) {
            throw TemplateFailure{"a value is too long to be written out"};
        }
        out_ += text;
    }
    void new_line(int64_t indent) {
        add("\n");
        add(std::string(static_cast<size_t>(indent), ' '));
    }
    void separate(bool is_first, int64_t indent) {
        if (is_first) return;
        add(",");
        new_line(indent);
    }

    void write_dict(const Dict& dict, int64_t indent, int64_t allowance, int level) {
        add("{");
        const auto entries = sorted_entries(dict);
        for (const auto* entry : entries) {
            separate(entry == entries.front(), indent + 1);
            const std::string key = sorted_repr_of(entry->first).bytes();
            add(key);
            add(": ");
            const int64_t behind = entry == entries.back() ? allowance : 1;
            write(entry->second, indent + 1 + width_of(key) + 2, behind, level);
        }
        add("}");
    }

    void write_list(const List& list, const std::string& form, int64_t indent, int64_t allowance,
                    int level) {
        const bool is_tuple = list.kind == List::Kind::tuple;
        if (!is_tuple && list.kind != List::Kind::list) return add(form);
        const std::string_view end = !is_tuple ? "]" : list.items.size() == 1 ? ",)" : ")";
        add(is_tuple ? "(" : "[");
        for (size_t i = 0; i < list.items.size(); ++i) {
            separate(i == 0, indent + 1);
            const bool is_last = i + 1 == list.items.size();
            write(list.items[i], indent + 1, is_last ? allowance + width_of(end) : 1, level);
        }
        add(end);
    }

    // Several texts side by side, which Python joins; in brackets where nothing else holds them.
    void write_text(std::string_view text, int64_t indent, int64_t allowance, int level) {
        const bool is_outermost = level == 1;
        if (is_outermost) ++indent, ++allowance;
        const auto chunks = chunks_of(text, kWidth - indent, allowance);
        if (chunks.size() == 1) return add(chunks.front());
        if (is_outermost) add("(");
        for (const std::string& chunk : chunks) {
            if (&chunk != &chunks.front()) new_line(indent);
            add(chunk);
        }
        if (is_outermost) add(")");
    }

    static std::vector<std::string> chunks_of(std::string_view text, int64_t width,
                                              int64_t allowance) {
        std::vector<std::string> chunks;
        const auto lines = pieces_of(text, line_end);
        for (size_t i = 0; i < lines.size(); ++i) {
            const int64_t behind = i + 1 == lines.size() ? allowance : 0;
            std::string whole = repr_of_text(lines[i]);
            if (width_of(whole) <= width - behind) {
                chunks.push_back(std::move(whole));
            } else {
                add_words(lines[i], width, behind, chunks);
            }
        }
        return chunks;
    }

    static void add_words(std::string_view line, int64_t width, int64_t allowance,
                          std::vector<std::string>& chunks) {
        const auto words = pieces_of(line, word_end);
        size_t begin = 0, end = 0;  // of what the next chunk has so far
        for (size_t i = 0; i < words.size(); ++i) {
            if (i + 1 == words.size()) width -= allowance;
            const size_t next = end + words[i].size();
            const auto candidate = line.substr(begin, next - begin);
            if (width_of(repr_of_text(candidate)) > width && end > begin) {
                chunks.push_back(repr_of_text(line.substr(begin, end - begin)));
                begin = end;
            }
            end = next;
        }
        if (end > begin) chunks.push_back(repr_of_text(line.substr(begin, end - begin)));
    }

    std::string out_;
};

}  // namespace

TrackedText pretty_form_of(const Value& value) {
    PrettyWriter writer;
    writer.write(value, 0, 0, 0);
    return TrackedText(writer.take(), sorted_repr_of(value).any_marked());
}

}  // namespace nvllm::chat
