// The front door to JSON: strict reading with limits and errors that say where, and writing that is
// always valid.
//
// Reading throws Error{bad_data} and no other exception. The parser's own header,
// <nlohmann/json.hpp>, is included only by .cc files that read inside a document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

struct JsonLimits {
    size_t max_depth = 64;
    size_t max_bytes = size_t{256} << 20;
    size_t max_keys = SIZE_MAX;   // of one object
    size_t max_parts = SIZE_MAX;  // keys, objects and lists together
    // RFC 8259 leaves open which of two values counts; what decides over weights or requests must
    // not be open.
    bool allow_duplicate_keys = false;
};

// The document in `text`. `source_name` (a file, "request body") begins the message of an error,
// with line and column.
nlohmann::json parse_json(std::string_view text, std::string_view source_name,
                          const JsonLimits& limits = {});

// A list or object of a document whose elements, perhaps very many, are handed over one by one
// while it is read. In the document it is empty.
struct JsonStream {
    std::vector<std::string> path;  // keys from the root
    // In the order of the text. The taker may move from both. Keys may come twice where the limits
    // allow it; null in lists.
    std::function<void(std::string* key, nlohmann::json& element)> take;
};
// Throws bad_data also when what is streamed comes twice.
nlohmann::json parse_json(std::string_view text, std::string_view source_name,
                          const JsonLimits& limits, std::span<const JsonStream> streams);

// The same with the keys of objects in the order they were written; looking one up is linear in
// their number.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view source_name,
                                          const JsonLimits& limits = {});

// The value as text without line breaks: bytes that are not UTF-8 become U+FFFD, NaN and infinity
// null.
std::string write_json(const nlohmann::json& value);
std::string write_json(const nlohmann::ordered_json& value);

// A string in quotes, with the same care.
std::string json_quoted(std::string_view text);

// The shortest number that reads back as the same value; "null" for NaN and infinity.
std::string json_number(double value);
std::string json_number(float value);

}  // namespace nvllm
