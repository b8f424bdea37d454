// Records of JSONL files, read field by field with errors that name file, line and field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nvllm {

// One line, an object. All readers throw bad_data.
class JsonRecord {
  public:
    // Throws bad_data when the line is no JSON object.
    JsonRecord(const std::string& line, const std::string& file, size_t line_number);

    bool has(const char* key) const;
    // Within [low, high].
    int64_t integer(const char* key, int64_t low, int64_t high) const;
    int64_t integer_or(const char* key, int64_t absent, int64_t low, int64_t high) const;
    // Finite and at least `low`.
    double number(const char* key, double low) const;
    bool boolean_or(const char* key, bool absent) const;
    std::string text(const char* key) const;
    std::vector<std::string> texts(const char* key) const;
    // Each in [0, bound).
    std::vector<int64_t> integers(const char* key, int64_t bound) const;
    // Token ids, at least one, each in [0, vocab_size).
    std::vector<int32_t> ids(const char* key, int64_t vocab_size) const;

    // "FILE:3", for messages.
    const std::string& where() const { return where_; }
    [[noreturn]] void fail(const std::string& message) const;

  private:
    const nlohmann::json& field(const char* key) const;

    std::string where_;
    std::shared_ptr<const nlohmann::json> object_;
};

// Every line that is not blank. Throws not_found or io for the file, bad_data for a line.
std::vector<JsonRecord> read_json_records(const std::filesystem::path& path);

// A whole file that must be one JSON object. Throws not_found, io, bad_data.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace nvllm
