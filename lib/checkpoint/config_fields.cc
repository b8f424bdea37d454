// Checked reads of config fields.
#include "lib/checkpoint/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr size_t kMaxListItems = 4096;

// Short values as they stand, long ones by their type.
std::string shown(const nlohmann::json& value) {
    if (value.is_string()) return quoted_for_message(value.get_ref<const std::string&>());
    if (value.is_primitive()) return value.dump();
    return value.is_array() ? "a list" : "an object";
}

}  // namespace

ConfigFields::ConfigFields(const nlohmann::json& object, std::string file_name,
                           BadValues bad_values)
    : object_(object), file_name_(std::move(file_name)), bad_values_(bad_values) {
    if (!object_.is_object()) {
        throw Error(ErrorKind::bad_data, file_name_ + ": is not a JSON object");
    }
}

const nlohmann::json* ConfigFields::find(const char* key) const {
    asked_->insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigFields::refuse(const char* key, const std::string& what) const {
    const nlohmann::json* value = find(key);
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: \"{}\" is {}; {}", file_name_, key,
                            value == nullptr ? "missing" : shown(*value), what));
}

void ConfigFields::reject(const char* key, const std::string& what) const {
    if (bad_values_ == BadValues::refused) refuse(key, what);
}

std::optional<int64_t> ConfigFields::integer(const char* key, int64_t low, int64_t high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                      value->get<int64_t>() >= low && value->get<int64_t>() <= high;
    if (fits) return value->get<int64_t>();
    reject(key, fmt::format("a whole number from {} to {} is expected", low, high));
    return std::nullopt;
}

std::optional<double> ConfigFields::number(const char* key, double low, double high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : low - 1.0;
    if (value->is_number() && number >= low && number <= high) return number;
    reject(key, fmt::format("a number from {} to {} is expected", low, high));
    return std::nullopt;
}

std::optional<bool> ConfigFields::boolean(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    reject(key, "true or false is expected");
    return std::nullopt;
}

std::optional<std::string> ConfigFields::text(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    reject(key, "a text is expected");
    return std::nullopt;
}

std::optional<std::vector<double>> ConfigFields::numbers(const char* key, double low,
                                                         double high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::string expected =
        fmt::format("a list of numbers from {} to {} is expected", low, high);
    const auto fits = [&](const nlohmann::json& item) {
        return item.is_number() && item.get<double>() >= low && item.get<double>() <= high;
    };
    if (value->is_array() && value->size() <= kMaxListItems && std::ranges::all_of(*value, fits)) {
        return value->get<std::vector<double>>();
    }
    reject(key, expected);
    return std::nullopt;
}

std::optional<std::vector<std::string>> ConfigFields::texts(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
    if (value->is_array() && value->size() <= kMaxListItems &&
        std::ranges::all_of(*value, is_text)) {
        return value->get<std::vector<std::string>>();
    }
    reject(key, "a list of texts is expected");
    return std::nullopt;
}

std::optional<ConfigFields> ConfigFields::object(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_object()) return ConfigFields(*value, file_name_, bad_values_);
    reject(key, "an object is expected");
    return std::nullopt;
}

std::vector<int64_t> ConfigFields::integers(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return {};
    const auto whole = [](const nlohmann::json& item) {
        return item.is_number_integer() &&
               (!item.is_number_unsigned() ||
                item.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    };
    if (whole(*value)) return {value->get<int64_t>()};
    if (value->is_array() && value->size() <= kMaxListItems && std::ranges::all_of(*value, whole)) {
        return value->get<std::vector<int64_t>>();
    }
    reject(key, "a whole number or a list of them is expected");
    return {};
}

}  // namespace nvllm
