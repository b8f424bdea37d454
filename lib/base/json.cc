// Checked parsing over nlohmann::json.
#include "lib/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
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

// The parser takes a NUL for the end of the text, and would not see what follows. In a string it is
// an error that the parser does see.
void refuse_nul(std::string_view text, std::string_view source_name) {
    if (text.find('\0') == std::string_view::npos) return;
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

// Makes the document while the parser goes through the text. The library's own way with a callback
// takes quadratic time for a list of objects.
template <typename Document>
class DocumentBuilder : public nlohmann::json_sax<Document> {
  public:
    using Refuse = std::function<void(const std::string&)>;  // throws

    DocumentBuilder(const JsonLimits& limits, std::span<const JsonStream> streams, Refuse refuse)
        : limits_(limits), streams_(streams), refuse_(std::move(refuse)) {}

    Document take() { return std::move(root_); }
    // What the parser found wrong: its exception, and where, when it knows.
    std::string wrong;
    size_t wrong_byte = 0;

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(int64_t value) override { return add(value); }
    bool number_unsigned(uint64_t value) override { return add(value); }
    bool number_float(double value, const std::string&) override { return add(value); }
    bool string(std::string& value) override { return add(std::move(value)); }
    bool binary(typename Document::binary_t&) override { return false; }

    bool start_object(size_t) override {
        keys_.emplace_back();
        return open(Document::object());
    }
    bool end_object() override {
        keys_.pop_back();
        return close();
    }
    bool start_array(size_t) override { return open(Document::array()); }
    bool end_array() override { return close(); }

    bool key(std::string& name) override {
        if (!limits_.allow_duplicate_keys || limits_.max_keys != SIZE_MAX) check_key(name);
        count_part();
        name_ = std::move(name);
        return true;
    }

    bool parse_error(size_t byte, const std::string&,
                     const nlohmann::detail::exception& exception) override {
        wrong = reason_of(exception);
        wrong_byte = byte;
        return false;
    }

  private:
    struct Open {
        Document* container;
        const JsonStream* stream;  // takes its elements; null: they stay
    };

    void check_key(const std::string& name) {
        const bool is_first = keys_.back().insert(name).second;
        if (!is_first && !limits_.allow_duplicate_keys) {
            refuse_(fmt::format("the key {} comes twice in one object", json_quoted(name)));
        }
        if (keys_.back().size() > limits_.max_keys) {
            refuse_(fmt::format("an object with more than {} keys", limits_.max_keys));
        }
    }

    bool add(Document value) {
        place(std::move(value));
        hand_over();
        return true;
    }

    // Depth is looked at before anything is built, so that a million brackets cost nothing.
    bool open(Document container) {
        if (open_.size() >= limits_.max_depth) {
            refuse_(fmt::format("nested deeper than {} levels", limits_.max_depth));
        }
        count_part();
        if (!streams_.empty() && !open_.empty()) {
            path_.push_back(open_.back().container->is_object() ? name_ : std::string());
        }
        Document* const placed = place(std::move(container));
        open_.push_back({placed, stream_here()});
        return true;
    }

    bool close() {
        open_.pop_back();
        if (!path_.empty()) path_.pop_back();
        hand_over();
        return true;
    }

    const JsonStream* stream_here() {
        for (const JsonStream& stream : streams_) {
            if (stream.path != path_) continue;
            if (!streamed_.insert(&stream).second) {
                refuse_(fmt::format("{} comes twice", fmt::join(stream.path, ".")));
            }
            return &stream;
        }
        return nullptr;
    }

    // What was placed last, where it is a whole element of a streamed list or object.
    void hand_over() {
        if constexpr (std::is_same_v<Document, json>) {
            if (open_.empty() || open_.back().stream == nullptr) return;
            const bool has_key = open_.back().container->is_object();
            open_.back().stream->take(has_key ? &element_key_ : nullptr, element_);
        }
    }

    void count_part() {
        if (++num_parts_ > limits_.max_parts) {
            refuse_(fmt::format("more than {} keys, objects and lists", limits_.max_parts));
        }
    }

    // Where it stays until its parent gets the next value.
    Document* place(Document value) {
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        Document& parent = *open_.back().container;
        if (open_.back().stream != nullptr) {
            element_key_ = std::move(name_);
            element_ = std::move(value);
            return &element_;
        }
        if (parent.is_array()) {
            auto& list = parent.template get_ref<typename Document::array_t&>();
            return &list.emplace_back(std::move(value));
        }
        return insert(parent.template get_ref<typename Document::object_t&>(), std::move(value));
    }

    template <typename Object>
    Document* insert(Object& object, Document value) {
        // Keys in their order are a vector, in which a key that is known to be new is not looked
        // for.
        if constexpr (requires { object.reserve(0); }) {
            if (!limits_.allow_duplicate_keys) {
                return &object.emplace_back(std::move(name_), std::move(value)).second;
            }
        }
        Document& member = object[name_];
        member = std::move(value);
        return &member;
    }

    const JsonLimits& limits_;
    const std::span<const JsonStream> streams_;
    const Refuse refuse_;
    Document root_;
    std::vector<Open> open_;
    std::vector<std::string> path_;  // keys of what is open, where there are streams
    std::set<const JsonStream*> streamed_;
    std::string element_key_;  // of an object's stream
    Document element_;
    std::vector<std::set<std::string>> keys_;  // of every object that is open
    std::string name_;                         // of the next member
    size_t num_parts_ = 0;
};

template <typename Document>
Document parse_checked(std::string_view text, std::string_view source_name,
                       const JsonLimits& limits, std::span<const JsonStream> streams = {}) {
    if (text.size() > limits.max_bytes) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: JSON of {} bytes; at most {} are read",
                                                     source_name, text.size(), limits.max_bytes));
    }
    refuse_nul(text, source_name);
    const char* const begin = text.data();
    const char* reached = begin;
    DocumentBuilder<Document> builder(limits, streams, [&](const std::string& reason) {
        fail(source_name, text, static_cast<size_t>(reached - begin) - 1, reason);
    });
    const bool is_read = Document::sax_parse(Cursor{begin, &reached},
                                             Cursor{begin + text.size(), &reached}, &builder);
    if (is_read) return builder.take();
    fail(source_name, text, builder.wrong_byte == 0 ? 0 : builder.wrong_byte - 1, builder.wrong);
}

template <typename T>
std::string shortest_number(T value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace

json parse_json(std::string_view text, std::string_view source_name, const JsonLimits& limits) {
    return parse_checked<json>(text, source_name, limits);
}

json parse_json(std::string_view text, std::string_view source_name, const JsonLimits& limits,
                std::span<const JsonStream> streams) {
    return parse_checked<json>(text, source_name, limits, streams);
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
