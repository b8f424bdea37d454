// Python's literals and calls, read by the rules of its grammar that models use, written as JSON.
#include "lib/chat/output/python_text.h"

#include <algorithm>

#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/chat/output/json_text.h"

namespace nvllm::output {
namespace {

constexpr size_t kMaxBrackets = 60;

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_byte(char c) { return is_name_start(c) || is_digit(c); }

// Finds the bracket that closes the first one. Quotes hide brackets.
class BracketScanner {
  public:
    using State = JsonScanner::State;

    State feed(char c) {
        if (quote_ != 0) return feed_string(c);
        if (c == '"' || c == '\'') quote_ = c;
        if (c == '(' || c == '[' || c == '{') {
            open_ += c;
            return open_.size() > kMaxBrackets ? State::broken : State::more;
        }
        if (c == ')') return close('(');
        if (c == ']') return close('[');
        if (c == '}') return close('{');
        return State::more;
    }

  private:
    State feed_string(char c) {
        if (escaped_) {
            escaped_ = false;
        } else if (c == '\\') {
            escaped_ = true;
        } else if (c == quote_) {
            quote_ = 0;
        }
        return State::more;
    }
    State close(char open) {
        if (open_.empty() || open_.back() != open) return State::broken;
        open_.pop_back();
        return open_.empty() ? State::done : State::more;
    }

    std::string open_;
    char quote_ = 0;
    bool escaped_ = false;
};

// Reads values from the front of a text that is there whole.
class PythonReader {
  public:
    explicit PythonReader(std::string_view text) : rest_(text) {}

    bool at_end() {
        skip_white();
        return rest_.empty();
    }
    bool take(char c) {
        skip_white();
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    // A name; with dots in it where `dotted`. Empty where none comes.
    std::string name(bool dotted) {
        skip_white();
        size_t length = 0;
        while (length < rest_.size() &&
               (is_name_byte(rest_[length]) || (dotted && length > 0 && is_joint(rest_[length]))))
            ++length;
        if (length == 0 || is_digit(rest_.front())) return {};
        std::string result(rest_.substr(0, length));
        rest_.remove_prefix(length);
        return result;
    }
    // Appends the JSON of the literal that comes next.
    bool value(std::string& json, size_t depth);

  private:
    static bool is_joint(char c) { return c == '.' || c == '-'; }
    void skip_white() {
        while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
    }
    bool text(std::string& json);
    bool escape(std::string& text);
    bool code_point(size_t digits, uint32_t& value);
    bool number(std::string& json);
    bool word(std::string& json);
    bool list(char close, std::string& json, size_t depth);
    bool dict(std::string& json, size_t depth);

    std::string_view rest_;
};

bool PythonReader::value(std::string& json, size_t depth) {
    skip_white();
    if (rest_.empty() || depth > kMaxBrackets) return false;
    const char c = rest_.front();
    if (c == '"' || c == '\'') return text(json);
    if (take('[')) return list(']', json, depth + 1);
    if (take('(')) return list(')', json, depth + 1);
    if (take('{')) return dict(json, depth + 1);
    if (is_name_start(c)) return word(json);
    return number(json);
}

bool PythonReader::word(std::string& json) {
    const std::string word = name(false);
    if (word == "True" || word == "true") json += "true";
    if (word == "False" || word == "false") json += "false";
    if (word == "None" || word == "null") json += "null";
    return word == "True" || word == "False" || word == "None" || word == "true" ||
           word == "false" || word == "null";
}

// Python writes "1_000", "+1", ".5" and "5." where JSON does not.
bool PythonReader::number(std::string& json) {
    const size_t length = std::min(rest_.size(), rest_.find_first_not_of("0123456789+-._eE"));
    std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    std::erase(text, '_');
    if (text.starts_with("+")) text.erase(0, 1);
    const size_t point = text.find('.');
    if (point != std::string::npos) {
        if (point + 1 == text.size() || !is_digit(text[point + 1])) text.insert(point + 1, "0");
        if (point == 0 || !is_digit(text[point - 1])) text.insert(point, "0");
    }
    json += text;
    return !text.empty() && is_json(text);
}

bool PythonReader::list(char close, std::string& json, size_t depth) {
    json += '[';
    while (!take(close)) {
        if (json.back() != '[') json += ", ";
        if (!value(json, depth)) return false;
        if (!take(',') && (rest_.empty() || rest_.front() != close)) return false;
    }
    json += ']';
    return true;
}

bool PythonReader::dict(std::string& json, size_t depth) {
    json += '{';
    for (bool first = true; !take('}'); first = false) {
        if (!first) json += ", ";
        skip_white();
        if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) return false;
        if (!text(json) || !take(':')) return false;
        json += ": ";
        if (!value(json, depth)) return false;
        if (!take(',') && (rest_.empty() || rest_.front() != '}')) return false;
    }
    json += '}';
    return true;
}

bool PythonReader::text(std::string& json) {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
        const char c = rest_.front();
        rest_.remove_prefix(1);
        if (c != '\\') {
            text += c;
        } else if (!escape(text)) {
            return false;
        }
    }
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    json += json_quoted(text);
    return true;
}

bool PythonReader::code_point(size_t digits, uint32_t& value) {
    if (rest_.size() < digits) return false;
    value = 0;
    for (const char c : rest_.substr(0, digits)) {
        const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
        if (!is_digit(c) && (digit == std::string_view::npos || digit < 10)) return false;
        value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : digit);
    }
    rest_.remove_prefix(digits);
    return true;
}

// What follows a backslash. An unknown escape stays as it is written, as in Python.
bool PythonReader::escape(std::string& text) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kLetters = "ntrbfav0\\'\"";
    constexpr std::string_view kBytes("\n\t\r\b\f\a\v\0\\'\"", 11);
    const size_t letter = kLetters.find(c);
    if (letter != std::string_view::npos) {
        text += kBytes[letter];
        return true;
    }
    if (c == '\n') return true;
    if (c != 'x' && c != 'u' && c != 'U') {
        text += '\\';
        text += c;
        return true;
    }
    uint32_t code = 0;
    if (!code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && rest_.starts_with("\\u")) {  // JSON's habit
        uint32_t low = 0;
        rest_.remove_prefix(2);
        if (!code_point(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    utf8::append(text, code);
    return true;
}

bool read_python_call(PythonReader& reader, FoundCall& call) {
    call.name = reader.name(true);
    if (call.name.empty() || !reader.take('(')) return false;
    ArgumentsText arguments;
    bool more = true;
    while (!reader.take(')')) {
        if (!more) return false;
        const std::string key = reader.name(false);
        std::string json;
        if (key.empty() || !reader.take('=') || !reader.value(json, 0)) return false;
        arguments.set(key, json);
        more = reader.take(',');
    }
    call.arguments = arguments.json();
    return true;
}

// None where the text is something else.
std::vector<FoundCall> calls_of(std::string_view text) {
    PythonReader reader(text);
    std::vector<FoundCall> calls;
    if (!reader.take('[')) return {};
    bool more = true;
    while (!reader.take(']')) {
        if (!more || !read_python_call(reader, calls.emplace_back())) return {};
        more = reader.take(',');
    }
    if (!reader.at_end()) return {};
    return calls;
}

// Whether a call seems to come: "[name(".
Reading<bool> seems_python_call(TextReader& in) {
    const bool open = co_await in.take("[");
    if (!open) co_return false;
    bool more = co_await skip_space(in);
    for (size_t length = 0; more; ++length) {
        const char c = in.peek();
        if (c == '(') co_return length > 0;
        if (!is_name_byte(c) && c != '.' && c != '-') co_return false;
        in.skip(1);
        more = co_await in.has(1);
    }
    co_return false;
}

}  // namespace

std::optional<std::string> json_of_python(std::string_view text) {
    PythonReader reader(text);
    std::string json;
    if (!reader.value(json, 0) || !reader.at_end()) return std::nullopt;
    return json;
}

Reading<bool> read_python_calls(TextReader& in, CallSink& sink) {
    const size_t start = in.position();
    const bool likely = co_await seems_python_call(in);
    if (!likely) co_return false;
    in.rewind(start);
    BracketScanner scanner;
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        const JsonScanner::State state = scanner.feed(in.peek());
        if (state == JsonScanner::State::broken) co_return false;
        in.skip(1);
        if (state == JsonScanner::State::done) break;
    }
    // No grammar holds this form, so that nothing is given in pieces.
    std::vector<FoundCall> calls = calls_of(in.since(start));
    for (FoundCall& call : calls) sink.call(std::move(call));
    co_return !calls.empty();
}

}  // namespace nvllm::output
