// Types of JSON values.
#include "lib/engine/options/json_values.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace nvllm::json_values {

using Json = nlohmann::ordered_json;

double read_number(const Json& value) {
    if (!value.is_number()) throw WrongValue{"a number"};
    return value.get<double>();
}

float read_float(const Json& value) { return static_cast<float>(read_number(value)); }

int64_t read_integer(const Json& value, int64_t lowest, int64_t highest) {
    const auto wrong = [&] {
        return WrongValue{fmt::format("an integer in [{}, {}]", lowest, highest)};
    };
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw wrong();
    }
    if (value.is_number_integer()) {
        const int64_t integer = value.get<int64_t>();
        if (integer < lowest || integer > highest) throw wrong();
        return integer;
    }
    // Larger numbers may be roundings of other integers.
    constexpr double kLargestExact = 9007199254740992.0;
    const double number = read_number(value);
    const bool is_exact = number == std::floor(number) && std::abs(number) <= kLargestExact;
    if (!is_exact || number < static_cast<double>(lowest) ||
        number > static_cast<double>(highest)) {
        throw wrong();
    }
    return static_cast<int64_t>(number);
}

int32_t read_int32(const Json& value) {
    return static_cast<int32_t>(read_integer(value, std::numeric_limits<int32_t>::min(),
                                             std::numeric_limits<int32_t>::max()));
}

bool read_bool(const Json& value) {
    if (!value.is_boolean()) throw WrongValue{"true or false"};
    return value.get<bool>();
}

std::string read_string(const Json& value) {
    if (!value.is_string()) throw WrongValue{"a string"};
    return value.get<std::string>();
}

std::vector<int32_t> read_ids(const Json& value) {
    if (!value.is_array()) throw WrongValue{"a list of token ids"};
    std::vector<int32_t> ids;
    ids.reserve(value.size());
    for (const Json& id : value) ids.push_back(read_int32(id));
    return ids;
}

std::vector<std::string> read_strings(const Json& value) {
    if (!value.is_array()) throw WrongValue{"a list of strings"};
    std::vector<std::string> texts;
    for (const Json& text : value) texts.push_back(read_string(text));
    return texts;
}

}  // namespace nvllm::json_values
