// Checked parsing over nlohmann::json.
#include "lib/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string_view source_name, std::string_view text, size_t offset,
                       std::string_view reason) {
    const std::string_view before = text.substr(0, std::min(offset, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_start =
        before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw Error(ErrorKind::bad_data, fmt::format("{}:{}:{}: not valid JSON: {}", source_name, line,
                                                 before.size() - line_start + 1, reason));
}

// Brackets outside of strings, counted before anything is built, so that a million of them cost
// nothing. The parser takes a NUL for the end of the text, and would not see what follows.
void check_structure(std::string_view text, std::string_view source_name, size_t max_depth) {
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if (in_string) {
            if (letter == '\\') ++i;
            in_string = letter != '"';
            continue;
        }
        in_string = letter == '"';
        if (letter == '\0') fail(source_name, text, i, "a NUL byte outside of a string");
        if ((letter == ']' || letter == '}') && depth > 0) --depth;
        if (letter != '[' && letter != '{') continue;
        if (++depth > max_depth) {
            fail(source_name, text, i, fmt::format("nested deeper than {} levels", max_depth));
        }
    }
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without what
// fail() says better.
std::string reason_of(const json::exception& exception) {
    std::string reason = exception.what();
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    if (reason.starts_with("parse error")) {
        if (const size_t end = reason.find(": "); end != std::string::npos)
            reason.erase(0, end + 2);
    }
    // The parser quotes what it read last, which may not be UTF-8.
    const std::string quoted = json_quoted(reason);
    return json::parse(quoted).get<std::string>();
}

// Goes through a text and leaves in `*reached` how far: the parser tells the place of some errors
// only.
struct Cursor {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    const char* at = nullptr;
    const char** reached = nullptr;

    reference operator*() const { return *at; }
    Cursor& operator++() {
        *reached = ++at;
        return *this;
    }
    Cursor operator++(int) {
        const Cursor before = *this;
        ++*this;
        return before;
    }
    bool operator==(const Cursor& other) const { return at == other.at; }
};

// Looks at the keys of every object that is open, and refuses with the place where it looks.
template <typename Document>
struct KeyCheck {
    using Event = typename Document::parse_event_t;
    const JsonLimits& limits;
    std::function<void(const std::string&)> refuse;
    std::vector<std::set<std::string>> open = {};
    size_t num_keys = 0;

    bool operator()(int, Event event, Document& parsed) {
        if (event == Event::object_start) open.emplace_back();
        if (event == Event::object_end) open.pop_back();
        if (event != Event::key) return true;
        const auto [place, is_first] = open.back().insert(parsed.template get<std::string>());
        if (!is_first && !limits.allow_duplicate_keys) {
            refuse(fmt::format("the key {} comes twice in one object", json_quoted(*place)));
        }
        if (open.back().size() > limits.max_keys) {
            refuse(fmt::format("an object with more than {} keys", limits.max_keys));
        }
        if (++num_keys > limits.max_all_keys) {
            refuse(fmt::format("more than {} keys", limits.max_all_keys));
        }
        return true;
    }
};

template <typename Document>
Document parse_checked(std::string_view text, std::string_view source_name,
                       const JsonLimits& limits) {
    if (text.size() > limits.max_bytes) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: JSON of {} bytes; at most {} are read",
                                                     source_name, text.size(), limits.max_bytes));
    }
    check_structure(text, source_name, limits.max_depth);
    const char* const begin = text.data();
    const char* reached = begin;
    const auto fail_here = [&](const std::string& reason) {
        const auto offset = static_cast<size_t>(reached - begin);
        fail(source_name, text, offset == 0 ? 0 : offset - 1, reason);
    };
    try {
        return Document::parse(Cursor{begin, &reached}, Cursor{begin + text.size(), &reached},
                               KeyCheck<Document>{limits, fail_here});
    } catch (const json::parse_error& error) {
        fail(source_name, text, error.byte == 0 ? 0 : error.byte - 1, reason_of(error));
    } catch (const json::exception& error) {
        fail_here(reason_of(error));
    }
    NVLLM_CHECK(false, "a document that is neither read nor refused");
}

template <typename T>
std::string shortest_number(T value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace

json parse_json(std::string_view text, std::string_view source_name, const JsonLimits& limits) {
    return parse_checked<json>(text, source_name, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view source_name,
                                          const JsonLimits& limits) {
    return parse_checked<nlohmann::ordered_json>(text, source_name, limits);
}

std::string write_json(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string write_json(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string json_quoted(std::string_view text) { return write_json(json(text)); }

std::string json_number(double value) { return shortest_number(value); }
std::string json_number(float value) { return shortest_number(value); }

}  // namespace nvllm
