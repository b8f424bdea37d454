// JSON files from outside, read by readers that name the field when it is wrong.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.h"

namespace nvllm {

// What a tokenizer's file may hold: of keys that come twice the last one counts, as in the formats'
// own libraries.
JsonLimits json_file_limits();

// The JSON of a tokenizer's file. Throws Error{bad_data} naming `source` when it is not JSON or
// nested too deeply.
nlohmann::json parse_json_file_text(std::string_view text, const std::string& source,
                                    std::span<const JsonStream> streams = {});

// One value within a document, and the way to it, for messages. Holds on to the document.
class JsonView {
  public:
    using Json =
        nlohmann::json;  // its objects are trees: a vocabulary of 200,000 members is no trouble
    JsonView(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

    const Json& json() const { return *value_; }
    const std::string& path() const { return path_; }
    bool is_null() const { return value_->is_null(); }

    // Members and elements; each throws Error{bad_data} when the value is of another kind or has
    // none.
    JsonView at(std::string_view key) const;
    // As at(), but nothing when the member is missing or null.
    std::optional<JsonView> find(std::string_view key) const;
    std::vector<JsonView> elements() const;

    std::string string() const;
    bool boolean() const;
    int64_t integer() const;
    double number() const;

    std::string string_or(std::string_view key, std::string_view otherwise) const;
    bool boolean_or(std::string_view key, bool otherwise) const;
    int64_t integer_or(std::string_view key, int64_t otherwise) const;

    [[noreturn]] void fail(const std::string& why) const;

  private:
    const Json* value_;
    std::string path_;
};

}  // namespace nvllm
