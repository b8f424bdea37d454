// Values of JSON fields: each reader checks the type and names what it expects.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nvllm::json_values {

// Thrown by the readers; the caller makes it the request's fault, with the name of the field.
struct WrongValue {
    std::string expected;  // "a number": completes "must be ..."
};

double read_number(const nlohmann::ordered_json& value);
// A magnitude beyond float32 becomes infinite, which range checks refuse.
float read_float(const nlohmann::ordered_json& value);
// Takes whole numbers that are written as floating point, if they are exact.
int64_t read_integer(const nlohmann::ordered_json& value, int64_t lowest, int64_t highest);
int32_t read_int32(const nlohmann::ordered_json& value);
bool read_bool(const nlohmann::ordered_json& value);
std::string read_string(const nlohmann::ordered_json& value);
// A list of token ids.
std::vector<int32_t> read_ids(const nlohmann::ordered_json& value);
std::vector<std::string> read_strings(const nlohmann::ordered_json& value);

}  // namespace nvllm::json_values
