// Checked access to the fields of a record.
#include "lib/measure/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"

namespace nvllm {

JsonRecord::JsonRecord(const std::string& line, const std::string& file, size_t line_number)
    : where_(fmt::format("{}:{}", file, line_number)),
      object_(std::make_shared<const nlohmann::json>(parse_json(line, where_))) {
    if (!object_->is_object()) fail("not a JSON object");
}

bool JsonRecord::has(const char* key) const { return object_->contains(key); }

const nlohmann::json& JsonRecord::field(const char* key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) fail(fmt::format("has no \"{}\"", key));
    return *found;
}

int64_t JsonRecord::integer(const char* key, int64_t low, int64_t high) const {
    const nlohmann::json& value = field(key);
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) &&
                      value.get<int64_t>() >= low && value.get<int64_t>() <= high;
    if (!fits) fail(fmt::format("\"{}\" is not a whole number from {} to {}", key, low, high));
    return value.get<int64_t>();
}

int64_t JsonRecord::integer_or(const char* key, int64_t absent, int64_t low, int64_t high) const {
    return has(key) ? integer(key, low, high) : absent;
}

double JsonRecord::number(const char* key, double low) const {
    const nlohmann::json& value = field(key);
    const bool fits =
        value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= low;
    if (!fits) fail(fmt::format("\"{}\" is not a number of at least {}", key, low));
    return value.get<double>();
}

bool JsonRecord::boolean_or(const char* key, bool absent) const {
    if (!has(key)) return absent;
    const nlohmann::json& value = field(key);
    if (!value.is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", key));
    return value.get<bool>();
}

std::string JsonRecord::text(const char* key) const {
    const nlohmann::json& value = field(key);
    if (!value.is_string()) fail(fmt::format("\"{}\" is not a text", key));
    return value.get<std::string>();
}

std::vector<std::string> JsonRecord::texts(const char* key) const {
    const nlohmann::json& value = field(key);
    if (!value.is_array()) fail(fmt::format("\"{}\" is not a list of texts", key));
    std::vector<std::string> texts;
    for (const nlohmann::json& element : value) {
        if (!element.is_string()) fail(fmt::format("\"{}\" holds something that is no text", key));
        texts.push_back(element.get<std::string>());
    }
    return texts;
}

std::vector<int64_t> JsonRecord::integers(const char* key, int64_t bound) const {
    const nlohmann::json& value = field(key);
    if (!value.is_array()) fail(fmt::format("\"{}\" is not a list of whole numbers", key));
    std::vector<int64_t> numbers;
    for (const nlohmann::json& element : value) {
        const bool fits = element.is_number_integer() && element.get<int64_t>() >= 0 &&
                          element.get<int64_t>() < bound;
        if (!fits) {
            fail(fmt::format("\"{}\" holds something that is no whole number from 0 to {}", key,
                             bound - 1));
        }
        numbers.push_back(element.get<int64_t>());
    }
    return numbers;
}

std::vector<int32_t> JsonRecord::ids(const char* key, int64_t vocab_size) const {
    const std::vector<int64_t> numbers = integers(key, vocab_size);
    if (numbers.empty()) fail(fmt::format("\"{}\" is empty", key));
    return {numbers.begin(), numbers.end()};
}

void JsonRecord::fail(const std::string& message) const {
    throw Error(ErrorKind::bad_data, where_ + ": " + message);
}

std::vector<JsonRecord> read_json_records(const std::filesystem::path& path) {
    std::istringstream lines(read_file(path));
    std::vector<JsonRecord> records;
    std::string line;
    for (size_t number = 1; std::getline(lines, line); ++number) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        records.emplace_back(line, path.string(), number);
    }
    return records;
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
    nlohmann::json value = parse_json(read_file(path), path.string());
    if (!value.is_object()) {
        throw Error(ErrorKind::bad_data, path.string() + ": not a JSON object");
    }
    return value;
}

}  // namespace nvllm
